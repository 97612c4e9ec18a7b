"""Auto parallel on ranks: one of them searches, all train by what it has found, and files keep it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpiparallel import Model, Tensor, context, nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import CommunicationError, ConfigurationError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.search import found_strategies
from mpiparallel.search.machine.cluster_file import machine_json
from mpiparallel.search.machine.machine import Machine
from mpiparallel.search.search import MODES
from mpiparallel.train import Callback

X = np.random.default_rng(2).normal(size=(8, 32))
Y = np.random.default_rng(3).normal(size=(8, 32))


class Perceptron(nn.Cell):
    def __init__(self, inner=256):
        super().__init__()
        draw = np.random.default_rng(1)
        self.wide = Parameter(draw.normal(size=(32, inner)) / 8, "wide")
        self.narrow = Parameter(draw.normal(size=(inner, 32)) / 8, "narrow")
        self.first, self.second, self.relu = ops.MatMul(), ops.MatMul(), ops.ReLU()

    def construct(self, x):
        return self.second(self.relu(self.first(x, self.wide)), self.narrow)


def trained(communicator, settings):
    """Return the losses of some steps, the layouts of the weights, and the weights of this rank."""
    context.reset_auto_parallel_context()
    if settings:
        context.set_auto_parallel_context(full_batch=True, **settings)
    network = Perceptron()
    model = Model(network, nn.MSELoss(), nn.Momentum(network.trainable_params(), 0.1, 0.9))
    losses = []

    class Noted(Callback):
        def step_end(self, run_context):
            losses.append(float(np.asarray(run_context.original_args().net_outputs.asnumpy())))

    data = NumpySlicesDataset((X, Y), ["x", "y"], shuffle=False).batch(8)
    model.train(3, data, callbacks=[Noted()])
    return losses, [str(one.layout) for one in network.trainable_params()]


@pytest.fixture(autouse=True)
def assumed_machine(monkeypatch) -> None:
    """Whatever was measured here."""
    monkeypatch.setattr(found_strategies, "kept_machine", Machine)


@pytest.fixture(scope="module")
def of_one_rank():
    return run_world(1, trained, {})[0][0]


@pytest.mark.parametrize("mode", MODES)
def test_the_loss_of_found_strategies_is_that_of_one_rank_and_all_ranks_have_the_same(mode, of_one_rank) -> None:
    settings = {"parallel_mode": "auto_parallel", "auto_parallel_search_mode": mode}
    ranks = run_world(4, trained, settings)
    assert all(one == ranks[0] for one in ranks)
    np.testing.assert_allclose(ranks[0][0], of_one_rank, rtol=1e-12)
    # The weights are large beside the batch.
    assert ranks[0][1] == ["[32 x 256/4] on (4,)", "[256/4 x 32] on (4,)"]


def test_found_strategies_are_saved_and_loaded_as_any_other(tmp_path, of_one_rank) -> None:
    file = str(tmp_path / "found.json")
    found = run_world(4, trained, {"parallel_mode": "auto_parallel", "strategy_ckpt_save_file": file})
    for mode in ("semi_auto_parallel", "auto_parallel"):
        loaded = run_world(4, trained, {"parallel_mode": mode, "strategy_ckpt_load_file": file})
        assert loaded[0][1] == found[0][1]
        np.testing.assert_allclose(loaded[0][0], of_one_rank, rtol=1e-12)


@pytest.mark.parametrize("timeout", [None, 1e-9])
def test_a_remark_says_what_was_found_how_far_from_the_best_it_may_be_and_if_time_ran_out(timeout, remarks) -> None:
    context.reset_auto_parallel_context()
    context.set_auto_parallel_context(
        parallel_mode="auto_parallel",
        auto_parallel_search_mode="optimal",
        full_batch=True,
        device_num=4,
        search_timeout=timeout,
    )
    Perceptron().sharded_graph(Tensor(X))
    (told,) = remarks()
    how = "found" if timeout is None else "stopped after 1e-09 s with"
    numbers = re.fullmatch(
        rf"auto_parallel: optimal {how} strategies by which a step takes ([\d.]+) ms by the cost model, where batch "
        r"parallelism takes ([\d.]+) ms and none takes less than ([\d.]+) ms",
        told,
    )
    assert numbers, told
    found, batch, bound = map(float, numbers.groups())
    assert (bound == found <= batch) if timeout is None else (bound < found == batch)


def refused(communicator, kind, inner, settings):
    context.reset_auto_parallel_context()
    context.set_auto_parallel_context(parallel_mode="auto_parallel", full_batch=True, **settings)
    with pytest.raises(kind) as raised:
        Perceptron(inner(communicator.rank))(Tensor(X))
    return str(raised.value)


def test_ranks_with_other_networks_are_told_before_anything_is_searched() -> None:
    class Longer(Perceptron):
        def construct(self, x):
            return self.relu(super().construct(x))

    def job(communicator):
        context.reset_auto_parallel_context()
        context.set_auto_parallel_context(parallel_mode="auto_parallel", full_batch=True)
        with pytest.raises(CommunicationError):
            (Longer if communicator.rank == 1 else Perceptron)()(Tensor(X))
        return True

    assert run_world(2, job) == [True, True]


def test_what_does_not_fit_into_a_machine_is_refused_on_all_ranks_and_says_by_how_much(tmp_path) -> None:
    file = tmp_path / "small.json"
    file.write_text(machine_json(Machine(memory=1e4)))
    told = run_world(2, refused, ConfigurationError, lambda rank: 256, {"search_machine": str(file)})
    assert all("a rank may hold 1e-05 GB, and nothing fits; what comes closest, " in one for one in told)


def test_ranks_that_plan_for_more_than_there_are_find_the_same_each_for_itself(monkeypatch) -> None:
    def measured_on_a_host():
        raise AssertionError("hosts may have measured other rates")

    monkeypatch.setattr(found_strategies, "kept_machine", measured_on_a_host)

    def job(communicator):
        context.reset_auto_parallel_context()
        context.set_auto_parallel_context(parallel_mode="auto_parallel", full_batch=True, device_num=8)
        sharded = Perceptron().sharded_graph(Tensor(X))
        return {name: str(layout) for name, layout in sharded.stored.items()}

    first, second = run_world(2, job)
    assert first == second


@pytest.mark.parametrize("timeout", [0, -1, True, "1"])
def test_a_timeout_is_seconds(timeout) -> None:
    with pytest.raises(ConfigurationError, match=r"search_timeout .* must be seconds above 0"):
        context.set_auto_parallel_context(search_timeout=timeout)


@pytest.mark.parametrize(
    ("size", "devices", "is_described", "per_host"),
    [
        # Alone, or with a file, the machine is what it says; else its hosts have as many ranks as there are.
        (1, 8, False, 8),
        (1, 8, True, 5),
        (4, 4, False, 2),
        (4, 4, True, 5),
        # Who plans for others knows of no measurement.
        (4, 8, False, 8),
        (4, 8, True, 5),
    ],
)
def test_the_machine_is_described_or_measured_or_assumed(
    size: int, devices: int, is_described: bool, per_host: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(found_strategies, "kept_machine", lambda: Machine(launch=0.5))
    file = tmp_path / "described.json"
    file.write_text(machine_json(Machine(ranks_per_host=5, launch=0.25)))
    configuration = ParallelConfiguration(device_num=devices, search_machine=str(file) if is_described else "")
    found = found_strategies.machine_of(configuration, SimpleNamespace(size=size, host_ranks=(0, 1)))
    is_measured = not is_described and size in (1, devices)
    assert found.ranks_per_host == per_host
    assert found.launch == (0.25 if is_described else 0.5 if is_measured else Machine().launch)


def searched(network: nn.Cell, stages: int, **settings: Any) -> Any:
    configuration = ParallelConfiguration(device_num=8, pipeline_stages=stages, full_batch=True, **settings)
    graph = network.sharded_graph(Tensor(X), configuration=ParallelConfiguration()).graph
    return found_strategies.find_strategies(graph, configuration, 8 // stages, {})


@pytest.mark.parametrize(
    ("stages", "mode", "told"),
    [
        (1, "optimal", "optimal found strategies by which a step takes "),
        (2, "optimal", "optimal found strategies by which a micro-batch takes, on the ranks of one of 2 stages, "),
        (1, "all", "recursive_programming found strategies by which a step takes "),
    ],
)
def test_with_stages_a_remark_is_of_a_micro_batch(
    stages: int, mode: str, told: str, remarks: Callable[[], list[str]]
) -> None:
    searched(Perceptron(), stages, search_mode=mode)
    (remark,) = remarks()
    assert remark.startswith(f"auto_parallel: {told}")
    milliseconds = float(remark.partition(" where batch parallelism takes ")[2].partition(" ms")[0])
    assert 0.01 < milliseconds < 1


def test_where_all_is_given_nothing_is_remarked_and_what_a_file_gives_stays(remarks: Callable[[], list[str]]) -> None:
    network = Perceptron()
    for one, cuts in ((network.first, ((1, 2), (2, 1))), (network.second, ((1, 4), (4, 1))), (network.relu, ((2, 1),))):
        one.shard(cuts)
    found = searched(network, 1, loaded_strategies=(("MatMul_wide", ((8, 1), (1, 1))),))
    assert [*found.inputs.values()] == [((8, 1), (1, 1)), ((2, 1),), ((1, 4), (4, 1))]
    assert remarks() == []


def test_a_user_may_limit_what_a_rank_needs_below_what_the_machine_has() -> None:
    with pytest.raises(ConfigurationError, match=r"search: a rank may hold 1e-06 GB, and nothing fits"):
        searched(Perceptron(), 1, search_memory=1e3)
