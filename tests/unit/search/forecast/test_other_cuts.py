"""The ways in which an operator could be cut otherwise: what else of the network changes with it, and what stays."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from mpiparallel import Tensor, nn
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.graph.graph import Node
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.search.forecast.other_cuts import OtherCut, other_cuts_of

CONFIGURATION = ParallelConfiguration("semi_auto_parallel", device_num=4)
BY_ROWS, BY_COLUMNS, WHOLE = ((4, 1), (1, 1)), ((1, 1), (4, 1)), ((1, 1), (1, 1))


class Layers(nn.Cell):
    """Two layers, the first of which the program cuts, and a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Dense(16, 16, has_bias=False) for _ in range(2))
        self.first.matmul.shard(BY_COLUMNS)

    def construct(self, x: Tensor) -> Tensor:
        return self.second(self.first(x)).mean()


def placed(
    configuration: ParallelConfiguration = CONFIGURATION, *, again: bool = False, trained: bool = True
) -> ShardedGraph:
    network = Layers()
    if again:
        network.recompute()
    network.second.weight.requires_grad = trained
    step = nn.TrainOneStepCell(network, nn.SGD(network.trainable_params(), 0.1)).set_train()
    return step.sharded_graph(Tensor(np.zeros((8, 16), np.float32)), configuration=configuration)


def products(sharded: ShardedGraph) -> list[Node]:
    return [one for one in sharded.graph.nodes if one.is_forward and one.operator.name == "MatMul"]


def others(
    node: Node, sharded: ShardedGraph, configuration: ParallelConfiguration = CONFIGURATION, **parts: object
) -> list[OtherCut]:
    given = {"lay_out": None, **parts}
    return other_cuts_of(node, 0, sharded.graph, StagedGraph((sharded,)), configuration, **given)


def cuts(sharded: ShardedGraph) -> list[tuple[tuple[int, ...], ...]]:
    return [tuple(layout.cuts for layout in sharded.placements[one].inputs) for one in products(sharded)]


def test_another_cut_changes_an_operator_and_leaves_what_the_program_says_of_others() -> None:
    sharded = placed()
    first, second = products(sharded)
    found = {one.strategy: one for one in others(second, sharded)}
    assert cuts(found[BY_COLUMNS].laid_out().stages[0]) == [BY_COLUMNS, BY_COLUMNS]
    assert cuts(found[WHOLE].laid_out().stages[0]) == [BY_COLUMNS, WHOLE]
    of_first = {one.strategy: one for one in others(first, sharded)}
    (alone,) = of_first[WHOLE].laid_out().stages
    # What has no strategy is cut by the batch, as before.
    assert cuts(alone) == [WHOLE, BY_ROWS]
    assert alone.strategies[first] == WHOLE


def test_what_is_computed_once_more_is_cut_otherwise_too() -> None:
    sharded = placed(again=True)
    assert cuts(sharded) == [BY_COLUMNS, BY_ROWS, BY_COLUMNS, BY_ROWS]
    for node in products(sharded)[1::2]:
        found = {one.strategy: one for one in others(node, sharded)}
        assert cuts(found[WHOLE].laid_out().stages[0]) == [BY_COLUMNS, WHOLE] * 2


def test_neither_the_strategy_of_an_operator_nor_how_it_lies_without_one_is_another() -> None:
    sharded = placed()
    for node, own in zip(products(sharded), (BY_COLUMNS, BY_ROWS), strict=True):
        found = [one.strategy for one in others(node, sharded)]
        assert own not in found
        assert len(found) == len(set(found))
        # First those that use all ranks as its own does, then those that use two, and one at the end.
        used = [max(prod(of) for of in one) for one in found]
        assert used == sorted(used, reverse=True)
        assert (used[0], used[-1], found[-1]) == (4, 1, WHOLE)


def test_strategies_of_a_file_stay_as_they_are_beside_another_cut() -> None:
    weight = products(placed())[1].inputs[1].name
    loaded = replace(CONFIGURATION, loaded_strategies=((f"MatMul_{weight}", BY_COLUMNS),))
    sharded = placed(loaded)
    assert cuts(sharded) == [BY_COLUMNS, BY_COLUMNS]
    first = products(sharded)[0]
    found = {one.strategy: one for one in others(first, sharded, loaded)}
    assert cuts(found[WHOLE].laid_out().stages[0]) == [WHOLE, BY_COLUMNS]


@pytest.mark.parametrize(
    ("mode", "shards", "hows"),
    [
        ("stand_alone", False, []),
        ("data_parallel", False, ["with the parallel optimizer, for all weights"]),
        ("data_parallel", True, ["without the parallel optimizer, for all weights"]),
        ("hybrid_parallel", False, ["with the parallel optimizer, for all weights"]),
    ],
)
def test_on_batches_of_their_own_weights_are_sharded_or_not_if_they_are_trained(
    mode: str, shards: bool, hows: list[str]
) -> None:
    ranks = 1 if mode == "stand_alone" else 4
    configuration = ParallelConfiguration(
        mode, device_num=ranks, enable_parallel_optimizer=shards, optimizer_threshold=0
    )
    sharded = placed(configuration)
    for node in products(sharded):
        found = others(node, sharded, configuration)
        assert [(one.strategy, one.how) for one in found] == [((), how) for how in hows]
    for one in found:
        (other,) = one.laid_out().stages
        stored = other.stored[products(sharded)[1].inputs[1].name]
        assert bool(stored.optimizer_axes) is not shards
    # A weight that is not trained is not sharded, and a node without weights has none.
    sharded = placed(configuration, trained=False)
    assert others(products(sharded)[1], sharded, configuration) == []
    mean = next(one for one in sharded.graph.nodes if one.is_forward and one.operator.name == "ReduceMean")
    assert others(mean, sharded, configuration) == []
