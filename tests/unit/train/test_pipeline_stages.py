"""Stages by counts, by names, by cost, of any ranks: the training stays that of one device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, context, nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ConfigurationError
from tests.unit.train.staged_networks import WORDS, Case, make_model, rows, same_as, trained

NONE = (None,) * 6
BY_NAME = (["embedding", "blocks.[01]"], ["blocks.[23]", "head*"])


def stages(ranks, given=None, **options) -> Case:
    cells = (0, 0, 0, 1, 1, 1) if given is None else NONE
    return Case(cells, given, dropout=0.25, settings={"pipeline_stages": ranks}, **options)


def sharded(ranks: list[int]) -> Case:
    """Tied weights on stages of unequal size, which are cut by the parallel optimizer as far as both can be."""
    case = stages(ranks, tied=True)
    threshold = {"parallel_optimizer_threshold": 0}
    shards = {"enable_parallel_optimizer": True, "parallel_optimizer_config": threshold}
    return replace(case, settings={**case.settings, **shards})


CASES = [
    (2, stages(2, [4, 2])),
    (3, stages(3, (BY_NAME[0], ["blocks.2"], ["blocks.3", "head*"]), loss_inside=False)),
    (2, stages(2, "auto", tied=True)),
    (2, stages(2, "auto", recompute=True, micro_size=2)),
    (4, stages(2, "auto", schedule={"pipeline_scheduler": "1f1b"})),
    (3, stages([1, 2], tied=True)),
    (4, stages([3, 1], [3, 3], clip=0.05)),
    (4, stages([[3, 0], [2, 1]], BY_NAME, cut=2)),
    (4, stages([1, 3], "auto")),
    (3, sharded([1, 2])),
    (6, sharded([4, 2])),
]


@pytest.mark.parametrize(
    ("ranks", "case"), CASES, ids=[f"{ranks} ranks {case.settings} {case.given}" for ranks, case in CASES]
)
def test_losses_and_weights_are_those_of_one_device(ranks: int, case: Case) -> None:
    alone = replace(case, stages=(0,) * 6, given=None, micro_size=0, cut=1, recompute=False, schedule={}, settings={})
    ((losses, wanted),) = run_world(1, trained, alone)
    found = run_world(ranks, trained, case)
    same_as(wanted, [held for _, held in found])
    for of_rank, _ in found:
        np.testing.assert_allclose(of_rank, losses, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("sizes", "shards"), [([1, 2], 1), ([4, 2], 2), ([2, 2], 2)])
def test_shared_weights_have_as_many_shards_in_each_stage(sizes: list[int], shards: int) -> None:
    found = run_world(sum(sizes), trained, sharded(sizes))
    rows_held = {held[name][1].shape[0] for _, held in found for name in ("head.table", "moment1.head.table")}
    assert rows_held == {WORDS // shards}


def stages_of(given, stage_ranks, micro_size=4, schedule="", **options):
    """Return the stages in which cells are put when the network is laid out; nothing is run."""
    scheduler = {"pipeline_scheduler": schedule} if schedule else {}
    settings = {"pipeline_stages": stage_ranks, "device_num": 4}
    case = Case(NONE, given, micro_size=micro_size, schedule=scheduler, settings=settings)
    model, network = make_model(case)
    trained = model.train_network.network
    trained._stage_memory = options.get("stage_memory", trained._stage_memory)
    columns = next(iter(rows().iterate()))
    model.train_network.set_train().program.shard([Tensor(one) for one in columns.values()])
    return [cell.pipeline_stage for cell in (network.embedding, *network.blocks, network.head)]


def test_automatic_stages_are_a_v_where_there_are_layers_and_micro_batches_enough() -> None:
    assert stages_of("auto", 2) == [0, 0, 1, 1, 0, 0]
    assert stages_of("auto", 2, micro_size=2) == [0, 0, 0, 1, 1, 1]
    assert stages_of("auto", 4) == [0, 0, 1, 2, 3, 3]


def test_of_uneven_stages_the_larger_gets_more_layers() -> None:
    found = stages_of("auto", [1, 3], micro_size=2)
    assert found.count(1) > found.count(0)


def test_automatic_stages_fit_into_the_memory_that_is_given_or_are_refused() -> None:
    assert stages_of("auto", 2, micro_size=2, stage_memory=1e6) == [0, 0, 0, 1, 1, 1]
    with pytest.raises(
        ConfigurationError, match=r"cannot be cut .* under stage_memory 100, where the smallest layer needs"
    ):
        stages_of("auto", 2, stage_memory=100)


def test_automatic_stages_count_the_activations_that_the_schedule_holds() -> None:
    given: dict[str, Any] = {"given": "auto", "stage_ranks": 2, "micro_size": 8, "stage_memory": 14e3}
    assert stages_of(**given, schedule="1f1b") == [0, 0, 0, 1, 1, 1]
    with pytest.raises(ConfigurationError, match="cannot be cut into the 2 parts of the schedule under stage_memory"):
        stages_of(**given, schedule="gpipe")


@pytest.mark.parametrize(
    ("given", "count", "message"),
    [
        (
            [4, 3],
            2,
            r"stages \[4, 3\] are 7 layers, and the network has 6: embedding, blocks.0, .* all of them together 6",
        ),
        ([6], 2, r"the cells of the network are in stages 0 \(from .*\); set pipeline_stage"),
        (BY_NAME, [1, 1, 2], r"the cells of the network are in stages 0 \(.*\), 1 \(.*\); set pipeline_stage of its"),
        ((["embeding"], ["head"]), 2, "no cell of the network has a name like 'embeding' of stage 0; there are embed"),
        ((["blocks*"], ["blocks.3"]), 2, r"'blocks.3' is in stage 0 and, by 'blocks.3', in stage 1; let each"),
        ("automatic", 2, "stages 'automatic' are not a number of layers for each stage, like"),
        ([[1], [2]], 2, r"stages \[\[1\], \[2\]\] are not a number of layers"),
        ([3, 3], [1, 2], "the 2 stages have 3 ranks together, and there are 4; start 3, or give each rank"),
        ("auto", [[0, 2], [1, 1]], r"pipeline_stages \[\[0, 2\], \[1, 1\]\] is neither a number of stages"),
        ("auto", [0, 4], "is neither a number of stages, nor how many ranks each has"),
    ],
)
def test_stages_that_cannot_be_are_refused_with_the_mend(given, count, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        stages_of(given, count)


def test_unequal_stages_are_not_fed_pieces() -> None:
    def job(communicator) -> None:
        case = stages([1, 2], [3, 3])
        trained(communicator, replace(case, settings={**case.settings, "full_batch": False}))

    with pytest.raises(ConfigurationError, match="stages of unequal size take unequal pieces of a batch; set full_b"):
        run_world(3, job)


def test_a_parameter_that_two_stages_cut_differently_is_refused() -> None:
    def job(communicator) -> None:
        model, network = make_model(Case(tied=True))
        network.embedding.gather.shard(((2, 1), (1, 1)))
        network.head.matmul.shard(((1, 2), (1, 2)))
        model.train(1, rows(8), dataset_sink_mode=False)

    with pytest.raises(
        ConfigurationError,
        match=r"MatMul.*: stage 1 cuts the parameter 'head.table' into \(1, 2\) pa.*Gather.* in stage 0 .*; give both",
    ):
        run_world(4, job)


class Mixing(nn.TrainOneStepCell):
    """Adds the weight of the second stage to that of the first after each step."""

    def construct(self, *inputs):
        loss = super().construct(*inputs)
        first, second = self.weights
        return ops.depend(loss, ops.AssignAdd()(first, second))


def test_an_update_that_reads_parameters_of_two_stages_is_refused_by_their_names() -> None:
    def job(_communicator) -> None:
        context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True, pipeline_stages=2)
        network = nn.SequentialCell(*(nn.Dense(4, 4, has_bias=False) for _ in range(2)))
        network[0].pipeline_stage, network[1].pipeline_stage = 0, 1
        pieces = nn.PipelineCell(nn.WithLossCell(network, nn.MSELoss()), 2)
        ones = Tensor(np.ones((4, 4), np.float32))
        Mixing(pieces, nn.SGD(network.trainable_params(), 0.1)).set_train()(ones, ones)

    message = "AssignAdd.*: it reads the parameters '0.weight' of stage 0, '1.weight' of stage 1, which no stage of the"
    with pytest.raises(ConfigurationError, match=message):
        run_world(2, job)
