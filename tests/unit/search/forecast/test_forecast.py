"""What a forecast says as a whole, of stages that are made by hand and of small networks."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, nn
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.forecast.forecast import Forecast, StageForecast, make_forecast
from mpiparallel.search.forecast.memory import KINDS, MemoryForecast
from mpiparallel.search.forecast.timeline import StageTime, bubble
from mpiparallel.search.machine.machine import Link, Machine


def stage(busy: float, waiting: float = 0.0, size: int = 0, **parts: float) -> StageForecast:
    memory = MemoryForecast({**dict.fromkeys(KINDS, 0), "weights": size}, 0, "")
    return StageForecast("0", 1, StageTime(busy, waiting), parts, 0.0, memory, (), (), (), ())


def forecast(*stages: StageForecast, ranks: int = 4, **machine: Any) -> Forecast:
    return Forecast(ranks, Machine(**machine), "semi_auto_parallel", True, 8, "", stages)


@pytest.mark.parametrize(("ranks", "hosts"), [(1, 1), (8, 1), (9, 2), (16, 2), (17, 3)])
def test_ranks_need_as_many_hosts_as_hold_them(ranks: int, hosts: int) -> None:
    assert forecast(stage(1.0), ranks=ranks, ranks_per_host=8).hosts == hosts


def test_a_step_ends_with_its_last_stage_and_is_bound_by_the_one_that_works_longest() -> None:
    first, second = stage(6.0, 1.0, 100, work=4.0, moves=2.0), stage(3.0, 5.0, 300, work=3.0)
    told = forecast(first, second, memory=250.0)
    assert told.seconds == 8.0
    assert (told.slowest, told.fullest) == (first, second)
    assert told.missing_memory == 50.0
    assert told.bound == ("work", 0.5)
    # Both are idle for 7 of 16 seconds.
    assert told.bubble == pytest.approx(7 / 16)


def test_what_is_waited_for_bounds_a_step_where_it_takes_longer_than_any_work() -> None:
    assert forecast(stage(2.0, 6.0, work=2.0)).bound == ("waiting for other stages", 0.75)


def test_a_step_of_no_seconds_is_bound_by_nothing_and_a_machine_of_any_memory_lacks_none() -> None:
    told = forecast(stage(0.0, work=0.0))
    assert told.bound == ("work", 0.0)
    assert told.bubble == 0.0
    assert told.missing_memory == -inf
    assert bubble([]) == 0.0


class Turned(nn.Cell):
    """A product of rows, of which the result is wanted whole."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(32, 32, has_bias=False)
        self.dense.matmul.shard(((4, 1), (1, 1)))
        self.relu = nn.ReLU()

    def construct(self, x: Tensor) -> Tensor:
        return self.relu(self.dense(x))


def made(mode: str = "semi_auto_parallel", trains: bool = False, **machine: Any) -> Forecast:
    configuration = ParallelConfiguration(mode, device_num=4)
    network: Any = Turned()
    if trains:
        optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
        network = nn.TrainOneStepCell(nn.WithLossCell(network, nn.MSELoss()), optimizer).set_train()
    given = [Tensor(np.ones((16, 32), np.float32))] * (2 if trains else 1)
    sharded = network.sharded_graph(*given, configuration=configuration)
    return make_forecast(StagedGraph((sharded,)), configuration, Prices(Machine(**machine)))


@pytest.mark.parametrize(("mode", "samples"), [("semi_auto_parallel", 16), ("data_parallel", 64)])
def test_samples_are_the_rows_of_the_batch_or_of_those_of_all_ranks(mode: str, samples: int) -> None:
    told = made(mode, trains=True)
    assert (told.samples, told.ranks, told.mode, told.trains, told.schedule) == (samples, 4, mode, True, "")


def test_a_network_that_updates_nothing_does_not_train() -> None:
    assert made().trains is False


@pytest.mark.parametrize(("per_host", "where"), [(4, "within"), (2, "between")])
def test_seconds_are_told_by_what_they_are_spent_on(per_host: int, where: str) -> None:
    slow = {"ranks_per_host": per_host, "cores": per_host, "launch": 0.0}
    told = made(**slow, products=((1e3, 1e9),), operation_rate=1e6, memory_bandwidth=inf, inside=Link(1.0, inf))
    (only,) = told.stages
    assert set(only.parts) == {
        "matrix products",
        "other operators",
        "communication within hosts",
        "communication between hosts",
    }
    # A quarter of 16 rows on each rank.
    assert only.parts["matrix products"] == pytest.approx(2 * 4 * 32 * 32 / 1e9)
    assert only.parts["other operators"] == pytest.approx(4 * 32 / 1e6, rel=1e-3)
    (gather,) = only.collectives
    assert (gather.kind, gather.count, gather.byte_count) == ("AllGather", 1, 16 * 32 * 4)
    assert (gather.group.size, gather.group.hosts, gather.group.ranks) == (4, 4 // per_host, "0 to 3")
    other = {"within": "between", "between": "within"}[where]
    assert only.parts[f"communication {where} hosts"] + only.time.hidden == pytest.approx(gather.seconds)
    assert only.parts[f"communication {other} hosts"] == 0.0
    assert (only.ranks, only.rank_count, only.recomputing) == ("0 to 3", 4, 0.0)


def test_seconds_of_what_is_computed_once_more_are_told() -> None:
    configuration = ParallelConfiguration("semi_auto_parallel", device_num=1)
    seconds = []
    for again in (False, True):
        network = Turned()
        network.dense.matmul.shard(None)
        if again:
            network.recompute()
        step = nn.TrainOneStepCell(
            nn.WithLossCell(network, nn.MSELoss()), nn.Momentum(network.trainable_params(), 0.1, 0.9)
        ).set_train()
        x = Tensor(np.ones((16, 32), np.float32))
        sharded = step.sharded_graph(x, x, configuration=configuration)
        machine = Machine(products=((1e3, 1e6),), operation_rate=1e30, memory_bandwidth=inf, launch=0.0)
        seconds.append(make_forecast(StagedGraph((sharded,)), configuration, Prices(machine)).stages[0].recomputing)
    assert seconds == [0.0, pytest.approx(2 * 16 * 32 * 32 / 1e6)]


def test_the_memory_of_a_stage_is_the_sum_of_its_kinds() -> None:
    told = MemoryForecast({"weights": 5, "gaps": 7}, 0, "")
    assert replace(told, arena=100).total == 12


@pytest.mark.parametrize("per_host", [2, 8])
def test_what_is_told_of_a_stage_adds_up_to_its_work_without_what_is_hidden(per_host: int) -> None:
    """Where ranks are on several hosts, gradients are summed while those before are computed."""
    configuration = ParallelConfiguration("data_parallel", device_num=4)
    network = nn.SequentialCell(*(nn.Dense(300, 300, has_bias=False) for _ in range(3)))
    optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
    step = nn.TrainOneStepCell(nn.WithLossCell(network, nn.MSELoss()), optimizer).set_train()
    sharded = step.sharded_graph(*[Tensor(np.ones((64, 300), np.float32))] * 2, configuration=configuration)
    machine = Machine(ranks_per_host=per_host, cores=per_host)
    (only,) = make_forecast(StagedGraph((sharded,)), configuration, Prices(machine)).stages
    assert sum(only.parts.values()) == pytest.approx(only.time.busy, rel=1e-9)
    assert (only.time.hidden > 0) is (per_host == 2)
    communicated = sum(one.seconds for one in only.collectives)
    where = "communication between hosts" if per_host == 2 else "communication within hosts"
    assert only.parts[where] == pytest.approx(communicated - only.time.hidden, rel=1e-9)
