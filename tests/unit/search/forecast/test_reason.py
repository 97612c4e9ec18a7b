"""What another cut would cost is what a network costs that is written with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mpiparallel import Parameter, Tensor, nn, ops
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.graph import Graph, Node
from mpiparallel.launch.show.reasons import reason_text
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.forecast.forecast import make_forecast
from mpiparallel.search.forecast.reason import Alternative, Reason, Reasons
from mpiparallel.search.machine.machine import Machine

CONFIGURATION = ParallelConfiguration(ParallelMode.SEMI_AUTO_PARALLEL, device_num=4)
Cuts = tuple[tuple[int, ...], ...]


def placed(second: Cuts) -> ShardedGraph:
    """Return the training of two layers, the second cut so."""
    network = nn.SequentialCell(nn.Dense(32, 64, has_bias=False), nn.Dense(64, 32, has_bias=False))
    network[0].matmul.shard(((1, 1), (4, 1)))
    network[1].matmul.shard(second)
    step = nn.TrainOneStepCell(nn.WithLossCell(network, nn.MSELoss()), nn.SGD(network.trainable_params(), 0.1))
    x, y = (Tensor(np.zeros((16, 32), np.float32)) for _ in range(2))
    return step.set_train().sharded_graph(x, y, configuration=CONFIGURATION)


def reason_of(node: Node, sharded: ShardedGraph, prices: Prices, *in_time: Callable[[], bool]) -> Reason:
    return Reasons(sharded.graph, StagedGraph((sharded,)), CONFIGURATION, prices).of(node, *in_time)


def test_each_alternative_costs_what_it_would_if_it_were_written() -> None:
    prices = Prices(Machine())
    sharded = placed(((1, 4), (1, 4)))
    node = [one for one in sharded.graph.nodes if one.is_forward and one.operator.name == "MatMul"][1]
    reason = reason_of(node, sharded, prices)
    assert reason.rule == "strategy that the program sets by shard"
    assert reason.tried == reason.possible == len(reason.alternatives) > 5
    assert [one.seconds for one in reason.alternatives] == sorted(one.seconds for one in reason.alternatives)
    assert reason.strategy not in [one.strategy for one in reason.alternatives]
    for one in (*reason.alternatives[:3], reason.alternatives[-1]):
        written = make_forecast(StagedGraph((placed(one.strategy),)), CONFIGURATION, prices)
        assert one.seconds == pytest.approx(written.seconds, rel=1e-12)


def test_without_time_it_says_how_many_were_tried() -> None:
    sharded = placed(((1, 4), (1, 4)))
    node = next(one for one in sharded.graph.nodes if one.operator.name == "MatMul")
    asked = iter([True, True, False])
    reason = reason_of(node, sharded, Prices(Machine()), lambda: next(asked))
    assert (reason.tried, len(reason.alternatives) <= 2, reason.possible > 2) == (2, True, True)


@pytest.mark.parametrize(("count", "shown", "left"), [(1, 1, 0), (8, 8, 0), (9, 8, 1), (30, 8, 22)])
def test_eight_alternatives_are_shown_and_the_others_counted(count: int, shown: int, left: int) -> None:
    alternatives = tuple(Alternative(((1, place + 2),), 2.0 + place, 1 << 20) for place in range(count))
    text = reason_text(Reason("MatMul-op0", "the cheapest", ((2, 1),), 1.0, 1 << 20, alternatives, count, count))
    assert sum(line.count(" %") for line in text.splitlines() if "alternative" not in line) == shown
    assert [line.strip() for line in text.splitlines() if "dearer" in line] == [f"and {left} dearer ones"] * bool(left)


OWN_BATCH = replace(CONFIGURATION, mode=ParallelMode.DATA_PARALLEL)


def refused(configuration: ParallelConfiguration) -> tuple[Graph, StagedGraph]:
    raise ConfigurationError("it cannot be laid out so")


def another(configuration: ParallelConfiguration) -> tuple[Graph, StagedGraph]:
    """Lay out another network than the one that is asked about."""
    sharded = nn.ReLU().sharded_graph(Tensor(np.zeros((16, 32), np.float32)), configuration=configuration)
    return sharded.graph, StagedGraph((sharded,))


@pytest.mark.parametrize("lay_out", [None, refused, another])
def test_where_batches_cannot_be_taken_as_one_the_parallel_optimizer_is_the_only_other_way(lay_out: Any) -> None:
    sharded = placed(((1, 1), (1, 1)))
    products = [one for one in sharded.graph.nodes if one.is_forward and one.operator.name == "MatMul"]
    means = [one for one in sharded.graph.nodes if one.is_forward and one.operator.name == "ReduceMean"]
    reasons = Reasons(sharded.graph, StagedGraph((sharded,)), OWN_BATCH, Prices(Machine()), lay_out)
    assert [one.how for one in reasons.of(products[1]).alternatives] == ["with the parallel optimizer, for all weights"]
    # It has no weights.
    assert reasons.of(means[0]).alternatives == ()


def test_a_cut_that_a_shared_parameter_forbids_is_tried_and_left_out() -> None:
    network = Tied()
    step = nn.TrainOneStepCell(network, nn.SGD(network.trainable_params(), 0.1)).set_train()
    sharded = step.sharded_graph(Tensor(np.zeros((16, 32), np.float32)), configuration=CONFIGURATION)
    node = next(one for one in sharded.graph.nodes if one.is_forward and one.operator.name == "MatMul")
    reason = reason_of(node, sharded, Prices(Machine()))
    assert reason.tried == reason.possible > len(reason.alternatives) > 0
    # The other product has the weights whole; so has each that can be beside it.
    assert {one.strategy for one in reason.alternatives} == {((2, 1), (1, 1)), ((1, 1), (1, 1))}


class Tied(nn.Cell):
    """Two products with one weight, which both have whole."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = Parameter(np.ones((32, 32), np.float32), "weight")
        self.first = ops.MatMul().shard(((4, 1), (1, 1)))
        self.second = ops.MatMul().shard(((4, 1), (1, 1)))

    def construct(self, x: Tensor) -> Tensor:
        return self.second(self.first(x, self.weight), self.weight).mean()
