"""What a request of Model.reshard becomes: the command of all who train, or a refusal that says what to do."""

from __future__ import annotations

from typing import Any

import pytest

from mpiparallel import context, nn
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ConfigurationError, MpiParallelError, StrategyError
from mpiparallel.train.elastic.leader_message import ReshardCommand
from mpiparallel.train.elastic.proposal import Networks, ReshardRequest, TrainingProgress, propose
from tests.conformance.trainings.moving_product import SEMI_AUTO, make_model, rows

COLUMNS = ((1, 1), (1, 4))
HALVES = ((1, 1), (1, 2))


def request(
    strategy: Any = None,
    ranks: Any = None,
    retire: str = "wait",
    relabel: bool = False,
    spawn: bool = False,
    **more: Any,
) -> ReshardRequest:
    stages = more.pop("stages", None)
    return ReshardRequest(strategy, ranks, retire, relabel, spawn, more, stages)


def proposed(model: Any, asked: ReshardRequest, progress: TrainingProgress) -> ReshardCommand:
    networks = Networks.of(model.predict_network, model.train_network, model.predict_network)
    return propose(asked, networks, model.resharding.membership, progress)


AT_STEP_7 = TrainingProgress(7, {"moment": "step_end"})
STRANGE = dict.fromkeys(("third", "fourth", "fifth", "sixth"), ((1,),))
REFUSED: list[tuple[ReshardRequest, type[MpiParallelError], str]] = [
    (
        request(ranks=count),
        ConfigurationError,
        f"ranks {count} must be 1 to 4, for so many ranks train or wait; have more started with spawn=True",
    )
    for count in (0, 5)
]
REFUSED += [
    (
        request(ranks=listed),
        ConfigurationError,
        f"ranks {listed} must be a count, or a list of distinct ranks of the job, which are [0, 1, 2, 3]",
    )
    for listed in ([1, 4], [1, 1], [-1])
]
REFUSED += [
    (
        request(**{name: 2}),
        ConfigurationError,
        f"{name} cannot be given here; the number of ranks is that of ranks=..., and a training keeps its accumulation",
    )
    for name in ("device_num", "global_rank", "grad_accumulation_step")
]
REFUSED += [
    (request(device_num=2, global_rank=0), ConfigurationError, REFUSED[-3][2]),
    (request(retire="later"), ConfigurationError, "retire 'later' is neither 'wait' nor 'end'"),
    (
        request(strategy=3),
        ConfigurationError,
        "strategy is a int; give a strategy file, a network like the model's that is cut as wanted, or a dict of "
        "strategies by the names of operators",
    ),
    (
        request(stages=[1, 2]),
        ConfigurationError,
        "stages [1, 2] say where the cells of an nn.PipelineCell are, and the model has none; leave them out, or make "
        "the model of nn.PipelineCell(network, micro_size)",
    ),
    (
        request(parallel_mode="stand_alone"),
        ConfigurationError,
        "in stand_alone mode each rank trains a network of its own; set parallel_mode, for example to "
        "'semi_auto_parallel', before the training",
    ),
    (request(strategy={3: ((1,),)}), StrategyError, "strategy has the key 3; give operators by name"),
    (
        request(strategy=STRANGE),
        StrategyError,
        "strategy names 'third', 'fourth', 'fifth', which is no operator of the network; name them by their places "
        "(first, second, mean, ...) or as strategy files do (MatMul_weight, Mul_scale, ...)",
    ),
]


def test_what_cannot_be_is_refused_in_full_words_and_leaves_all_settings_and_cuts() -> None:
    def job(communicator: Any) -> list[str]:
        model = make_model(COLUMNS)
        model.build(rows())
        said = []
        for asked, error, _ in REFUSED:
            with pytest.raises(error) as raised:
                proposed(model, asked, AT_STEP_7)
            said.append(str(raised.value))
            assert model.predict_network.first.strategy == COLUMNS
            assert context.get_auto_parallel_context("parallel_mode") == "semi_auto_parallel"
        return said

    assert run_world(4, job) == [[f"Model.reshard: {words}" for _, _, words in REFUSED]] * 4


def test_a_command_says_all_that_a_rank_must_know() -> None:
    def job(communicator: Any) -> None:
        context.set_seed(5)
        model = make_model(COLUMNS)
        model.build(rows())
        asked = request({"first": HALVES}, 2, mode="bounded", wave_bytes=9, enable_parallel_optimizer=True)
        found = proposed(model, asked, AT_STEP_7)
        assert (found.before, found.after, found.leaving, found.dead) == ((0, 1, 2, 3), (0, 1), (), ())
        assert (found.step, found.position, found.seed, found.reloads) == (7, {"moment": "step_end"}, 5, ())
        assert found.options == {
            "mode": "bounded",
            "scratch_bytes": 64 << 20,
            "wave_bytes": 9,
            "verify": True,
            "digest": False,
            "executor": "auto",
        }
        assert found.parallel["enable_parallel_optimizer"]
        (first,) = (cuts for place, cuts in found.cuts.items() if place.endswith("first"))
        assert first == (HALVES, None)
        (weight,) = (one for name, one in found.tensors.items() if name == "weight")
        assert (weight.source.devices.size, weight.target.cuts) == (4, (1, 2))
        assert {"weight", "scale", "moments.weight", "moments.scale"} <= found.tensors.keys()
        # Nothing of it holds yet.
        assert model.predict_network.first.strategy == COLUMNS
        assert not context.get_auto_parallel_context("enable_parallel_optimizer")

    run_world(4, job)


AFTER_2_AND_0: list[tuple[ReshardRequest, tuple[int, ...], tuple[int, ...]]] = [
    (request(), (2, 0), ()),
    (request(retire="end"), (2, 0), (1, 3)),
    (request(ranks=1), (2,), ()),
    (request(ranks=1, retire="end"), (2,), (0, 1, 3)),
    (request(ranks=3), (2, 0, 1), ()),
    (request(ranks=4, retire="end"), (2, 0, 1, 3), ()),
    (request(ranks=[3, 1]), (3, 1), ()),
    (request(ranks=[3, 1], retire="end"), (3, 1), (0, 2)),
    (request(ranks=3, spawn=True), (2, 0, 1), ()),
    (request(ranks=4, spawn=True), (2, 0, 1, 3), ()),
    (request(ranks=6, spawn=True), (2, 0, 1, 3, 4, 5), ()),
]


def test_who_trains_goes_on_first_then_come_spares_and_then_new_processes() -> None:
    def job(communicator: Any) -> Any:
        model = make_model()
        model.reshard(ranks=[2, 0])
        if not model.active:
            return None
        found = [proposed(model, asked, AT_STEP_7) for asked, _, _ in AFTER_2_AND_0]
        assert [one.before for one in found] == [(2, 0)] * len(found)
        return [(one.after, one.leaving) for one in found]

    wanted = [(after, leaving) for _, after, leaving in AFTER_2_AND_0]
    assert run_world(4, job) == [wanted, None, wanted, None]


@pytest.mark.parametrize(("asked", "legal"), [({"ranks": 2}, (2, 3)), ({"ranks": [1, 0]}, (0, 1))])
def test_relabelling_chooses_among_all_who_train_where_only_their_number_is_asked_for(
    asked: dict[str, Any], legal: tuple[int, ...]
) -> None:
    def job(communicator: Any) -> tuple[int, ...]:
        model = make_model(COLUMNS)
        model.train(1, rows())
        return proposed(model, request({"first": HALVES}, relabel=True, **asked), AT_STEP_7).after

    # Ranks 0 and 1 hold the first half of the columns, ranks 2 and 3 the second.
    for first, second in run_world(4, job):
        assert first in (0, 1)
        assert second in legal
        assert first != second


def test_stages_say_how_many_stages_there_are_unless_that_is_given() -> None:
    assert request(stages=[1, 2, 3], mode="bounded").settings() == {"pipeline_stages": 3}
    assert request(stages=[1, 2, 3], pipeline_stages=4, full_batch=True).settings() == {
        "pipeline_stages": 4,
        "full_batch": True,
    }
    assert request(verify=False).settings() == {}


def test_the_networks_of_a_model_begin_with_the_one_that_trains() -> None:
    own, evaluation = nn.ReLU(), nn.Tanh()
    training = make_model(settings=SEMI_AUTO).train_network
    assert Networks.of(own, training, evaluation) == Networks(own, training, (training, own, evaluation))
    assert Networks.of(own, None, evaluation).all == (own, evaluation)


def test_data_that_cannot_follow_are_asked_for_the_ranks_that_then_train() -> None:
    asked: list[Any] = []
    progress = TrainingProgress(0, None, lambda configuration, ranks: asked.append((configuration.device_num, ranks)))

    def job(communicator: Any) -> None:
        proposed(make_model(), request(ranks=[2, 1]), progress)

    run_world(3, job)
    assert asked == [(2, (2, 1))] * 3
