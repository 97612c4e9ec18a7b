"""What another cut would cost is what a network costs that is written with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

from mpiparallel import Parameter, Tensor, nn, ops
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.context.settings import current_configuration
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.graph import Graph, Node
from mpiparallel.launch.show.reasons import reason_text
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.forecast.forecast import make_forecast
from mpiparallel.search.forecast.other_cuts import other_cuts_of
from mpiparallel.search.forecast.reason import Alternative, Reason, Reasons
from mpiparallel.search.machine.machine import Machine
from tests.unit.train.staged_networks import Case, columns, make_model

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


def layer(layerwise: bool = False) -> nn.Cell:
    """The training of a layer."""

    class Layer(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Dense(32, 32, has_bias=False)
            self.dense.weight.layerwise_parallel = layerwise

        def construct(self, x: Tensor) -> Tensor:
            return self.dense(x)

    network = Layer()
    loss = nn.WithLossCell(network, nn.MSELoss())
    return nn.TrainOneStepCell(loss, nn.SGD(network.trainable_params(), 0.1)).set_train()


@pytest.mark.parametrize(("layerwise", "is_taken"), [(False, True), (True, False)])
def test_batches_of_all_ranks_are_taken_as_one_where_the_network_is_the_same_then(
    layerwise: bool, is_taken: bool
) -> None:
    step = layer(layerwise)
    x = [Tensor(np.zeros((4, 32), np.float32))] * 2
    asked: list[ParallelConfiguration] = []

    def lay_out(configuration: ParallelConfiguration) -> tuple[Graph, StagedGraph]:
        asked.append(configuration)
        whole = [Tensor(np.zeros((16, 32), np.float32))] * 2
        sharded = step.sharded_graph(*whole, configuration=configuration)
        return sharded.graph, StagedGraph((sharded,))

    own = replace(OWN_BATCH, rank=2, strategy_save_file="plan.json", group_info_file="groups.json")
    sharded = step.sharded_graph(*x, configuration=OWN_BATCH)
    node = next(one for one in sharded.graph.nodes if one.is_forward and one.operator.name == "MatMul")
    reason = Reasons(sharded.graph, StagedGraph((sharded,)), own, Prices(Machine()), lay_out).of(node)
    hows = {one.how for one in reason.alternatives}
    assert hows == {"with the parallel optimizer, for all weights", *["in semi_auto_parallel"] * is_taken}
    assert len(asked) == is_taken
    for configuration in asked:
        assert configuration == replace(OWN_BATCH, mode="semi_auto_parallel")
        cuts = [one.strategy for one in reason.alternatives if one.strategy]
        assert ((1, 1), (4, 1)) in cuts
        assert len(set(cuts)) == len(cuts) > 5


def test_with_the_parallel_optimizer_the_other_way_is_without_it() -> None:
    step = layer()
    own = replace(OWN_BATCH, enable_parallel_optimizer=True, optimizer_threshold=0)
    sharded = step.sharded_graph(*[Tensor(np.zeros((4, 32), np.float32))] * 2, configuration=own)
    node = next(one for one in sharded.graph.nodes if one.is_forward and one.operator.name == "MatMul")
    reason = Reasons(sharded.graph, StagedGraph((sharded,)), own, Prices(Machine())).of(node)
    (other,) = reason.alternatives
    assert (other.strategy, other.how) == ((), "without the parallel optimizer, for all weights")
    # Each rank keeps the whole weight then, not a quarter of it.
    assert other.kept_bytes - reason.kept_bytes >= 3 / 4 * 32 * 32 * 4
    alone = Reasons(sharded.graph, StagedGraph((sharded,)), ParallelConfiguration(), Prices(Machine())).of(node)
    assert (alone.alternatives, alone.possible) == ((), 0)


def test_other_cuts_come_first_that_use_as_many_ranks() -> None:
    sharded = placed(((1, 4), (1, 4)))
    node = next(one for one in sharded.graph.nodes if one.operator.name == "MatMul")
    cuts = other_cuts_of(node, 0, sharded.graph, StagedGraph((sharded,)), CONFIGURATION, None)
    # It is cut by columns of the weight, so that is no other cut; of a strategy the larger cut of an input counts.
    used = [max(prod(of) for of in one.strategy) for one in cuts]
    assert used == sorted(used, reverse=True)
    assert (used[0], used[-1]) == (4, 1)
    assert ((1, 1), (4, 1)) not in [one.strategy for one in cuts]
    assert {one.how for one in cuts} == {""}


def test_with_stages_the_rule_names_the_stage_and_its_ranks() -> None:
    model, _ = make_model(Case(settings={"device_num": 4, "global_rank": 0}, micro_size=2))
    staged = model.shard([*columns(8)], current_configuration())
    configuration = current_configuration()
    told = []
    for stage in staged.stages:
        node = next(one for one in stage.graph.nodes if one.is_forward and one.operator.name == "MatMul")
        reason = Reasons(stage.graph, staged, configuration, Prices(Machine())).of(node, lambda: False)
        told.append(reason.rule.partition("; ")[2])
        assert reason.seconds == make_forecast(staged, configuration, Prices(Machine())).seconds
        assert (reason.tried, reason.alternatives) == (0, ())
    assert told == ["in stage 0 of 2, on ranks 0 to 1", "in stage 1 of 2, on ranks 2 to 3"]
