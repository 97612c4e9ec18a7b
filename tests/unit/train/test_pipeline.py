"""A training in stages is that of one device on whole batches: losses, weights and optimizer states."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from mpiparallel import Tensor, context, nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CommunicationError, ConfigurationError, LayoutError, ScheduleError
from mpiparallel.pipeline import make_schedule
from tests.unit.train.staged_networks import ROWS, WORDS, Case, make_model, rows, same_as, trained

THREE, FOUR = (0, 0, 1, 1, 2, 2), (0, 0, 1, 2, 3, 3)
GPIPE, ONE, ZB_V, V_HALF = ({"pipeline_scheduler": name} for name in ("gpipe", "1f1b", "zero_bubble_v", "v_half"))
INTERLEAVED = {"pipeline_interleave": True}
SHARDS = {"enable_parallel_optimizer": True, "parallel_optimizer_config": {"parallel_optimizer_threshold": 0}}
SEARCHED = {"parallel_mode": "auto_parallel"}
MASKED = Case(dropout=0.25)


@cache
def _on_one_device(case: str):
    return run_world(1, trained, _CASES[case])[0]


_CASES: dict[str, Case] = {}


def on_one_device(case: Case):
    """Return the training of a case without stages; batch norm has the statistics of micro-batches anywhere."""
    micro_size = case.micro_size if case.normed else 0
    alone = replace(case, stages=(0,) * 6, micro_size=micro_size, schedule={}, cut=1, recompute=False, settings={})
    _CASES[str(alone)] = alone
    return _on_one_device(str(alone))


@pytest.mark.parametrize(
    ("ranks", "case"),
    [
        (2, replace(MASKED, schedule=GPIPE)),
        (2, replace(MASKED, schedule=ONE, micro_size=8)),
        (2, replace(MASKED, micro_size=2, loss_inside=False)),
        (4, replace(MASKED, schedule=GPIPE, cut=2)),
        (4, replace(MASKED, schedule=ONE)),
        (4, replace(MASKED, cut=2)),
        (3, replace(MASKED, schedule=ONE, stages=THREE)),
        (3, replace(MASKED, stages=THREE, tied=True)),
        (6, replace(MASKED, stages=THREE, cut=2)),
        (4, replace(MASKED, stages=FOUR, schedule=GPIPE, micro_size=8)),
        (4, replace(MASKED, stages=FOUR)),
        (4, replace(MASKED, schedule=INTERLEAVED, stages=(0, 0, 1, 0, 1, 1))),
        (2, replace(MASKED, schedule=ZB_V, stages=(0, 0, 1, 1, 0, 0), tied=True)),
        (2, replace(MASKED, schedule=V_HALF, stages=(0, 0, 1, 1, 0, 0))),
        (4, replace(MASKED, schedule=V_HALF, stages=(0, 1, 2, 3, 2, 0), micro_size=8)),
        (4, replace(MASKED, tied=True, recompute=True, settings=SHARDS)),
        (2, replace(MASKED, tied=True, clip=0.05)),
        (3, replace(MASKED, tied=True, clip=0.05, stages=THREE)),
        (3, replace(MASKED, tied=True, clip=0.05, stages=THREE, accumulation=2)),
        (2, replace(MASKED, normed=True, recompute=True, micro_size=2)),
        (4, replace(MASKED, accumulation=2, loss_inside=False, tied=True)),
        (2, replace(MASKED, recompute=True, cut=1)),
        (4, Case(normed=True, schedule=ONE)),
        (4, replace(MASKED, tied=True, settings=SEARCHED)),
        (4, replace(MASKED, settings={**SEARCHED, "pipeline_stages": [1, 3]})),
    ],
    ids=lambda given: (
        " ".join(f"{name}={value}" for name, value in vars(given).items() if value != getattr(Case(), name))
        if isinstance(given, Case)
        else f"{given} ranks"
    ),
)
def test_losses_and_weights_are_those_of_one_device(ranks: int, case: Case) -> None:
    losses, wanted = on_one_device(case)
    # Parameters that are gathered from shards are so while others are used.
    trainings = run_world(ranks, trained, case, overlaps=bool(case.settings))
    for found, _ in trainings:
        np.testing.assert_allclose(found, losses, rtol=0, atol=1e-9)
    same_as(wanted, [held for _, held in trainings])


def test_operators_of_stages_are_cut_as_one_micro_batch_of_the_network_is_on_the_ranks_of_a_stage() -> None:
    """With weights that are large beside a micro-batch, none of a stage's ranks has the whole of one."""
    settings = {"parallel_mode": "auto_parallel", "device_num": 8, "global_rank": 0, "full_batch": True}
    context.set_auto_parallel_context(**settings, pipeline_stages=2)
    layers = [nn.Dense(512, 512) for _ in range(4)]
    network = nn.PipelineCell(nn.WithLossCell(nn.SequentialCell(layers), nn.MSELoss()), 2, stages=[2, 2])
    step = nn.TrainOneStepCell(network, nn.Adam(network.trainable_params(), 0.1)).set_train()
    x = np.zeros((8, 512), np.float32)
    staged = step.staged_graph(x, x)
    weights = [name for name, parameter in staged.parameters.items() if parameter.shape == (512, 512)]
    assert len(weights) == 12
    assert {staged.stored[name].replica_count for name in weights} == {1}


def evaluated(communicator, case: Case):
    model, _ = make_model(case, metrics={"loss", "mse"})
    model.train(1, rows(16), dataset_sink_mode=False)
    words = np.random.default_rng(3).integers(0, WORDS, (ROWS, 3)).astype(np.int32)
    # Of the last batch there are fewer rows, down to one.
    found = [model.eval(rows(2 * ROWS + rest)) for rest in range(ROWS)]
    told = [[one["loss"], one["mse"]] for one in found]
    return told, np.concatenate([model.predict(Tensor(words[:count])).asnumpy() for count in range(1, ROWS + 1)])


def evaluated_once(communicator, case: Case) -> float:
    model, _ = make_model(case, metrics={"loss"})
    return model.eval(rows(ROWS + 2))["loss"]


def test_evaluation_under_a_schedule_that_is_written_by_hand_takes_the_stages_alone() -> None:
    # It has 4 micro-batches, the last batch 2.
    case = Case(loss_inside=False, schedule={"pipeline_scheduler": make_schedule("1f1b", 2, 4)})
    (loss,) = run_world(1, evaluated_once, Case((0,) * 6, micro_size=0, loss_inside=False))
    np.testing.assert_allclose(run_world(2, evaluated_once, case), loss, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("ranks", "stages"), [(4, (0, 0, 0, 1, 1, 1)), (3, THREE)])
def test_evaluation_and_prediction_of_batches_of_any_size_go_through_the_stages_to_all_ranks(
    ranks: int, stages: tuple[int, ...]
) -> None:
    case = replace(MASKED, loss_inside=False)
    loss, outputs = run_world(1, evaluated, replace(case, stages=(0,) * 6, micro_size=0))[0]
    for found, predicted in run_world(ranks, evaluated, replace(case, stages=stages)):
        np.testing.assert_allclose(found, loss, rtol=0, atol=1e-12)
        np.testing.assert_allclose(predicted, outputs, rtol=0, atol=1e-12)


def read_all(communicator, case: Case) -> list[str]:
    model, network = make_model(case)
    model.train(1, rows(8), dataset_sink_mode=False)
    problems = []
    for parameter in network.trainable_params():
        try:
            parameter.asnumpy()
        except LayoutError as error:
            problems.append(str(error))
    return problems


def test_a_rank_has_no_values_of_other_stages() -> None:
    first, last = run_world(2, read_all, MASKED)
    assert len(first) == len(last) == 5
    assert "'head.table'" in first[-1]
    assert "is held by other ranks, 1, of another stage of the pipeline" in first[-1]


@pytest.mark.parametrize(
    ("ranks", "case", "message"),
    [
        (
            3,
            replace(MASKED, stages=(0, 0, 0, 2, 2, 2)),
            r"are in stages 0 \(from .*/embedding/Gather on\), 2 \(from .*/2/MatMul on\); set pipeline_stage of its",
        ),
        (
            2,
            replace(MASKED, stages=(0, 1, 0, 1, 1, 1)),
            r"/1/MatMul: it is in pipeline_stage 0, but takes .*/0/Add:0 of stage 1, which comes later; number",
        ),
        (2, replace(MASKED, stages=(None, 0, 0, 1, 1, 1)), "uses the trained parameter 'embedding.table', but"),
        (
            2,
            replace(MASKED, micro_size=3),
            r"micro_size 3 does not divide the 8 rows of input 0, which \S+ of stage 0 reads first; take a batch",
        ),
        (2, replace(MASKED, micro_size=0), r"wrap it as nn.PipelineCell\(network, micro_size\)"),
        (3, MASKED, "pipeline_stages 2: 3 devices cannot be shared out evenly"),
    ],
)
def test_what_cannot_be_is_refused_on_all_ranks(ranks: int, case: Case, message: str) -> None:
    refused_alike(ranks, case, message)


def refused_alike(ranks: int, case: Case, message: str) -> None:
    """Hold all ranks to one refusal."""
    told = run_world(ranks, refusal, case)
    assert len(set(told)) == 1
    assert re.search(message, told[0]), told[0]


def refusal(communicator, case: Case) -> str:
    with pytest.raises((ConfigurationError, ScheduleError)) as caught:
        trained(communicator, case)
    return str(caught.value)


def test_parallel_modes_without_one_batch_have_no_stages() -> None:
    def job(communicator):
        make_model(MASKED)
        context.set_auto_parallel_context(parallel_mode="data_parallel", full_batch=None)
        network = nn.PipelineCell(nn.SequentialCell(nn.Dense(2, 2)), 2, {"0": 0})
        network(Tensor(np.ones((4, 2), np.float32)))

    with pytest.raises(ConfigurationError, match="parallel_mode 'data_parallel' has no stages; take 'semi_auto_par"):
        run_world(2, job)


def test_a_network_of_which_no_cell_is_in_a_stage_is_refused() -> None:
    def train(communicator) -> None:
        context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True, pipeline_stages=2)
        network = nn.PipelineCell(nn.WithLossCell(nn.Dense(2, 1), nn.MSELoss()), 2)
        nn.TrainOneStepCell(network, nn.SGD(network.trainable_params()))(
            Tensor(np.ones((4, 2), np.float32)), Tensor(np.ones((4, 1), np.float32))
        )

    with pytest.raises(ConfigurationError, match="2: no cell of the network is in a stage; set pipeline_stage"):
        run_world(2, train)


def test_a_micro_batch_that_needs_later_ones_is_refused() -> None:
    class Root(nn.Cell):
        def __init__(self, network) -> None:
            super().__init__()
            self.network = network

        def construct(self, *inputs):
            return self.network(*inputs).sqrt()

    def job(communicator):
        model, network = make_model(MASKED)
        network = Root(model.train_network.network)
        nn.TrainOneStepCell(network, model.train_network.optimizer).set_train()(*next(iter(rows().iterate())).values())

    with pytest.raises(ConfigurationError, match="which is computed of later micro-batches; give"):
        run_world(2, job)


@pytest.mark.parametrize(
    ("stages", "stage"), [((0, 0, 0, 1, 1, 1), 0), ((0, 1, 2, 2, None, None), 0)], ids=["two stages", "three stages"]
)
def test_a_batch_that_micro_batches_do_not_divide_is_refused_with_operator_and_stage(
    stages: tuple[int | None, ...], stage: int
) -> None:
    def job(communicator):
        model, _ = make_model(Case(stages=stages, micro_size=5))
        model.train(1, rows(), dataset_sink_mode=False)

    message = f"micro_size 5 does not divide the 8 rows of input 0, which \\S+ of stage {stage} reads first; take"
    with pytest.raises(ConfigurationError, match=message):
        run_world(max(one or 0 for one in stages) + 1, job)


def arena_bytes(communicator, case: Case) -> int:
    model, _ = make_model(case)
    model.train(1, rows(16), dataset_sink_mode=False)
    (program,) = model.train_network.program.programs
    return program.program.arena_bytes


def test_1f1b_holds_the_activations_of_fewer_micro_batches_than_gpipe() -> None:
    case = Case(micro_size=8)
    gpipe = run_world(2, arena_bytes, replace(case, schedule=GPIPE))
    assert all(
        one < other for one, other in zip(run_world(2, arena_bytes, replace(case, schedule=ONE)), gpipe, strict=True)
    )


class Broken(ops.MatMul):
    """Raises in the middle of a step."""

    def kernel(self, runtime, inputs, outputs):
        def run() -> None:
            raise ArithmeticError("broken in the step")

        return run


def fail_in_the_last_stage(communicator) -> None:
    model, network = make_model(MASKED)
    network.head.matmul = Broken(transpose_b=True)
    model.train(1, rows(8), dataset_sink_mode=False)


def test_a_stage_that_fails_in_a_step_lets_no_other_wait_for_ever() -> None:
    with pytest.raises(ArithmeticError, match="broken in the step"):
        run_world(4, fail_in_the_last_stage)


OWN = """
schedule mine          # every weight gradient at the end
micro-batches 4
parts 0 1
stage 0: F0 F1 F2 F3 I0 I1 I2 I3 W0 W1 W2 W3
stage 1: F0 I0 F1 I1 F2 I2 F3 I3 W0 W1 W2 W3
"""


def own_list(path, text: str) -> Case:
    file = path / "mine.txt"
    file.write_text(text)
    return replace(MASKED, schedule={"pipeline_scheduler": str(file)})


TURNED = """
schedule turned        # gradients in other orders than the micro-batches
micro-batches 4
parts 0 1
stage 0: F0 F1 F2 F3 I3 W3 I1 I2 W2 W1 I0 W0
stage 1: F0 F1 F2 F3 I3 I1 W1 I2 I0 W0 W3 W2
"""
SHUFFLED = """
schedule shuffled      # forward passes too, and both gradients of a micro-batch at once
micro-batches 4
parts 0 1
stage 0: F2 F0 F3 F1 I2 W2 I0 W0 I3 W3 I1 W1
stage 1: F2 I2 W2 F0 I0 W0 F3 I3 W3 F1 I1 W1
"""


@pytest.mark.parametrize("text", [OWN, TURNED, SHUFFLED], ids=["late", "turned", "shuffled"])
def test_stages_work_by_a_list_of_actions_that_the_user_has_written(text: str, tmp_path) -> None:
    case = own_list(tmp_path, text)
    losses, wanted = on_one_device(case)
    found = run_world(2, trained, case)
    same_as(wanted, [held for _, held in found])
    np.testing.assert_allclose([each for each, _ in found], [losses] * 2, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("was", "becomes", "message"),
    [
        (" F3 I0", " I0 F3", ""),
        ("F0 I0 F1", "I0 F0 F1", r'schedule "mine": stage 1, I0 \(input gradient\): rule "order": it needs F0'),
        (" W2 W3\n", " W2\n", 'stage 0: rule "complete": 1 of its actions are missing: W3'),
        ("F0 F1 F2", "F0 X1 F2", r'mine.txt, line 5, field 4 \("X1"\): is no action'),
        ("micro-batches 4", "micro-batches 5", "are missing: F4"),
        ("micro-batches 4", "micro-batches 3", "there are micro-batches 0 to 2"),
        ("parts 0 1", "parts 0 2", "name the stage of each part, and no stage without a part"),
    ],
)
def test_a_list_that_fails_its_checks_is_refused_before_anything_runs(tmp_path, was, becomes, message) -> None:
    assert was in OWN
    case = own_list(tmp_path, OWN.replace(was, becomes, 1))
    if not message:
        run_world(2, trained, case)
        return
    refused_alike(2, case, message)


def test_ranks_with_other_lists_of_one_name_are_refused_on_all_alike(tmp_path) -> None:
    def job(communicator) -> str:
        # Micro-batches 0 and 1 change places, so that each stage runs the same operators in the same order.
        text = re.sub("([FIW])([01])", lambda found: f"{found[1]}{1 - int(found[2])}", OWN)
        folder = tmp_path / str(communicator.rank)
        folder.mkdir()
        with pytest.raises(CommunicationError) as caught:
            trained(communicator, own_list(folder, text if communicator.rank else OWN))
        return str(caught.value)

    told = run_world(2, job)
    assert told[0] == told[1]
    assert "schedule mine, " in told[0]


def test_a_list_for_other_stages_or_micro_batches_is_refused(tmp_path) -> None:
    case = own_list(tmp_path, OWN)
    with pytest.raises(
        ConfigurationError, match='schedule "mine" is for 4 micro-batches, and there are 2; write it for'
    ):
        run_world(2, trained, replace(case, micro_size=2))
    with pytest.raises(ConfigurationError, match='schedule "mine" is for 2 stages, and there are 3; write it for 3'):
        run_world(3, trained, replace(case, stages=THREE))
    schedule = {"pipeline_scheduler": make_schedule("1f1b", 3, 4)}
    automatic = Case((None,) * 6, "auto", schedule=schedule, settings={"pipeline_stages": 2})
    with pytest.raises(ConfigurationError, match='schedule "1f1b" is for 3 stages, and there are 2; write it for 2'):
        run_world(2, trained, automatic)
