"""How each operator of a network is told: its cuts, what decided on them, and what it takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, nn, ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.graph.graph import Graph, Notes
from mpiparallel.graph.operator import Operator
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.nn.learning_rate_schedule import RateOfStep
from mpiparallel.ops.normalization.batch_statistics import BNMoments
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.cost.timed_nodes import timed_nodes
from mpiparallel.search.forecast.move import Move, Owners, ToldGroup, moves_of
from mpiparallel.search.forecast.operators import Rules, layout_text, operators_of
from mpiparallel.search.machine.machine import Machine

Cuts = tuple[tuple[int, ...], ...] | None


class Scaled(nn.Cell):
    """A product, and an activation that follows it."""

    def __init__(self, cuts: Cuts = None) -> None:
        super().__init__()
        self.dense = nn.Dense(8, 8)
        self.dense.matmul.shard(cuts)
        self.relu = ops.ReLU()

    def construct(self, x: Tensor) -> Tensor:
        return self.relu(self.dense(x)).reshape((-1, 4))


def trained(network: nn.Cell, mode: str, ranks: int = 4, **settings: Any) -> tuple[ShardedGraph, ParallelConfiguration]:
    configuration = ParallelConfiguration(mode, device_num=ranks, **settings)
    optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
    step = nn.TrainOneStepCell(network, optimizer).set_train()
    x = Tensor(np.ones((16, 8), np.float32))
    return step.sharded_graph(x, configuration=configuration), configuration


def rules(sharded: ShardedGraph, configuration: ParallelConfiguration) -> dict[str, str]:
    told = Rules(sharded, configuration)
    return {node.operator.name: told.of(node) for node in sharded.graph.nodes if node.is_forward}


CUT = ((4, 1), (1, 1))


def test_without_a_search_what_decides_is_the_program_the_input_or_the_batch() -> None:
    found = rules(*trained(Scaled(CUT), "semi_auto_parallel"))
    assert found["MatMul"] == "strategy that the program sets by shard"
    assert found["BiasAdd"] == "no strategy: cut by the batch, its first dim"
    assert found["Reshape"] == "no strategy: it follows its input"


def test_on_one_rank_nothing_is_cut() -> None:
    assert set(rules(*trained(Scaled(), "semi_auto_parallel", ranks=1)).values()) == {"one rank has all of it"}


@pytest.mark.parametrize(
    ("cuts", "path", "wanted"),
    [
        (None, "plan.json", "strategy of the file plan.json"),
        (((1, 1), (4, 1)), "plan.json", "strategy of the file plan.json"),
        (None, "", "found with stages and all else"),
        # The program says the same.
        (CUT, "plan.json", "strategy that the program sets by shard"),
    ],
)
def test_a_strategy_that_was_loaded_is_told_by_its_file(cuts: Cuts, path: str, wanted: str) -> None:
    network = Scaled(cuts)
    loaded = ((f"MatMul_{network.dense.weight.name}", CUT),)
    settings = {"loaded_strategies": loaded, "strategy_load_file": path}
    assert rules(*trained(network, "semi_auto_parallel", **settings))["MatMul"] == wanted


def test_a_strategy_that_was_found_is_told_by_the_mode_of_the_search() -> None:
    sharded, _ = trained(Scaled(), "semi_auto_parallel", loaded_strategies=(("MatMul_dense.weight", CUT),))
    product = next(node for node in sharded.graph.nodes if node.operator.name == "MatMul")
    found = rules(
        replace(sharded, strategies={product: CUT}),
        ParallelConfiguration("auto_parallel", device_num=4, search_mode="optimal"),
    )
    assert found["MatMul"] == "found by optimal"


def test_on_batches_of_their_own_ranks_are_told_what_becomes_of_gradients() -> None:
    network = Scaled()
    whole = "data_parallel: each rank computes the whole of it on its own batch"
    names = network.dense.weight.name, network.dense.bias.name
    found = rules(*trained(network, "data_parallel"))
    assert found["ReLU"] == whole
    assert found["MatMul"] == f"{whole}; the gradient of {names[0]} is summed over 4 ranks, which all update it"
    settings = {"enable_parallel_optimizer": True, "optimizer_threshold": 0}
    found = rules(*trained(Scaled(), "data_parallel", **settings))
    assert found["BiasAdd"].endswith(
        f"; the gradient of {names[1]} is summed over 4 ranks, each of which updates a part"
    )
    network = Scaled()
    network.dense.weight.layerwise_parallel = True
    network.dense.bias.requires_grad = False
    found = rules(*trained(network, "hybrid_parallel"))
    assert found["MatMul"] == (
        f"hybrid_parallel: each rank computes the whole of it on its own batch; {names[0]} is layerwise_parallel, each "
        "rank's own, and its gradient is not summed"
    )
    assert found["BiasAdd"] == "hybrid_parallel: each rank computes the whole of it on its own batch"


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (Layout((), DeviceMatrix((1,)), ()), "scalar"),
        (Layout((), DeviceMatrix((2,)), ()), "scalar, 2 copies"),
        (Layout((8, 6), DeviceMatrix((4,)), ((0,), ())), "8/4 x 6"),
        (Layout((8, 6), DeviceMatrix((2, 2)), ((), (1,))), "8 x 6/2, 2 copies"),
        (Layout((8,), DeviceMatrix((2,)), ((),), (0,), "max"), "8, partial max"),
        (Layout((8,), DeviceMatrix((2, 3)), ((),), (1,)), "8, 2 copies, partial sum"),
    ],
)
def test_a_layout_is_told_by_its_cuts_its_copies_and_its_terms(layout: Layout, text: str) -> None:
    assert layout_text(layout) == text


def test_operators_are_told_with_what_they_and_their_gradients_take() -> None:
    network = Scaled(CUT)
    sharded, configuration = trained(network, "semi_auto_parallel")
    machine = Machine(ranks_per_host=4)
    timed = timed_nodes(sharded, Prices(machine))
    owners = Owners(sharded)
    moves = [*moves_of(timed, owners, machine, 0)]
    found = {one.operator: one for one in operators_of(3, sharded, configuration, timed, moves)}
    assert [*found] == ["MatMul", "BiasAdd", "ReLU", "Reshape"]
    product, added, relu = found["MatMul"], found["BiasAdd"], found["ReLU"]
    assert (product.stage, product.parameters, product.cuts) == (3, (network.dense.weight.name,), CUT)
    assert (product.output, product.sources, added.sources, relu.sources) == (
        "16/4 x 8",
        (),
        (product.name,),
        (added.name,),
    )
    for one in found.values():
        own = [each for each in timed if each.step is None and owners.of_node(each.node) == one.name]
        assert one.computing == pytest.approx(sum(each.seconds for each in own))
        moved = [move for move in moves if move.operator == one.name]
        assert one.moving == pytest.approx(sum(move.seconds for move in moved))
        assert one.moved_bytes == sum(move.byte_count for move in moved)
    # The gradients of weight and bias are summed over the ranks.
    assert product.moved_bytes == 8 * 8 * 4
    assert added.moved_bytes == 8 * 4
    assert product.computing > relu.computing > 0


def test_moves_of_an_operator_add_up() -> None:
    sharded, configuration = trained(Scaled(CUT), "semi_auto_parallel")
    name = next(node.name for node in sharded.graph.nodes if node.operator.name == "ReLU")
    moves = [Move(name, "x", "forward", "AllGather", ToldGroup(4, 1, "0 to 3"), size, 0.5 * size) for size in (3, 4)]
    (relu,) = (one for one in operators_of(0, sharded, configuration, (), moves) if one.name == name)
    assert (relu.computing, relu.moving, relu.moved_bytes) == (0.0, 3.5, 7)


def test_operators_that_are_computed_once_more_are_told_behind_the_gradients() -> None:
    network = Scaled()
    network.recompute()
    sharded, configuration = trained(network, "semi_auto_parallel")
    found = [one.name for one in operators_of(0, sharded, configuration, (), ())]
    assert sum(name.startswith("recomputed/") for name in found) >= 2
    assert [name for name in found if not name.startswith("recomputed/")] == found[:4]


@pytest.mark.parametrize(
    ("operators", "notes", "follows"),
    [
        ([ops.ReLU(), ops.MatMul()], Notes(), False),
        ([ops.ReLU()], Notes(follows=True), True),
        ([ops.Reshape(), ops.ZerosLike(), ops.StopGradient(), ops.Identity(), ops.Cast()], Notes(), True),
        ([BNMoments(8), RateOfStep(lambda step: step)], Notes(), True),
    ],
)
def test_what_follows_is_told_so_whether_its_operator_does_or_its_place(
    operators: list[Operator], notes: Notes, follows: bool
) -> None:
    graph = Graph()
    x = graph.add_input("x", TensorSpec((8, 8), np.dtype(np.float32)))
    rules = Rules(ShardedGraph(graph, DeviceMatrix((4,))), ParallelConfiguration("semi_auto_parallel", device_num=4))
    told = {rules.of(graph.add_node(one, f"{place}", [x], [x.spec], notes)) for place, one in enumerate(operators)}
    assert told == {f"no strategy: {'it follows its input' if follows else 'cut by the batch, its first dim'}"}
