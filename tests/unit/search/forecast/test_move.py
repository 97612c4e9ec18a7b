"""What moves in a step, as it is told: by kind, by ranks, by the operator that it is for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mpiparallel import Tensor, nn
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.graph.graph import Graph, Node, Notes
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.ops import operations as P
from mpiparallel.parallel.border import Border, Send
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.parallel.redistribution import redistribute
from mpiparallel.parallel.redistribution_operators import redistributing_operator
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.cost.timed_nodes import TimedNode, timed_nodes
from mpiparallel.search.forecast.move import (
    Move,
    Owners,
    ToldGroup,
    collectives_of,
    message_seconds,
    moves_of,
    ranks_text,
)
from mpiparallel.search.machine.machine import Link, Machine

MACHINE = Machine(ranks_per_host=4, inside=Link(1.0, 8.0), between=Link(10.0, 4.0))


@pytest.mark.parametrize(
    ("ranks", "told"),
    [
        ([5], "5"),
        ([4, 5], "4, 5"),
        ([4, 5, 6], "4 to 6"),
        ([4, 6, 5], "4, 6, 5"),
        ([0, 1, 2, 4], "0, 1, 2, 4"),
        (range(0, 16, 2), "0, 2, 4, 6, 8, 10, 12, 14"),
        (range(0, 18, 2), "0, 2, 4, ... 16"),
    ],
)
def test_ranks_are_told_one_by_one_or_as_a_range_or_by_the_first_and_the_last(ranks: list[int], told: str) -> None:
    assert ranks_text(ranks) == told


@pytest.mark.parametrize(("ranks", "hosts"), [([0, 3], 1), ([3, 4], 2), ([0, 4, 5, 9], 3)])
def test_a_group_is_told_with_the_hosts_that_it_is_on(ranks: list[int], hosts: int) -> None:
    assert ToldGroup.of(ranks, MACHINE) == ToldGroup(len(ranks), hosts, ", ".join(map(str, ranks)))


def test_moves_are_told_together_by_kind_and_group_and_the_longest_come_first() -> None:
    near, far = ToldGroup(2, 1, "0, 1"), ToldGroup(2, 2, "0, 4")
    one = Move("MatMul", "x", "forward", "AllReduce", near, 100, 1.0)
    moves = [
        one,
        replace(one, kind="AllGather", seconds=9.0),
        replace(one, phase="backward", byte_count=20, seconds=2.0),
        replace(one, group=far, seconds=5.0),
        replace(one, byte_count=3, seconds=4.0),
    ]
    rows = collectives_of(moves)
    assert [(row.kind, row.group, row.count, row.byte_count, row.seconds) for row in rows] == [
        ("AllGather", near, 1, 100, 9.0),
        ("AllReduce", near, 3, 123, 7.0),
        ("AllReduce", far, 1, 100, 5.0),
    ]
    assert rows[1].phases == {"forward": 2, "backward": 1}


@pytest.mark.parametrize(("target", "seconds"), [(3, 1.0 + 16 / 8.0), (4, 10.0 + 16 / 4.0)])
def test_a_message_between_stages_takes_the_link_inside_a_host_or_that_between_hosts(
    target: int, seconds: float
) -> None:
    ends = [Layout((4,), DeviceMatrix((1,), rank), ((),)) for rank in (0, target)]
    border = Border(7, *ends)
    assert message_seconds(MACHINE, border, 16) == seconds
    graph = Graph()
    made = graph.add_node(P.ReLU(), "net/ReLU", [graph.add_input("x", TensorSpec((4,), np.dtype(np.float32)))], [])
    value = graph.add_input("net/ReLU:0", TensorSpec((4,), np.dtype(np.float32)))
    (found,) = moves_of(
        [TimedNode(Node(Send(border), "Send-1", (value,)), 0.0)],
        Owners(ShardedGraph(graph, DeviceMatrix((1,)))),
        MACHINE,
        0,
    )
    group = ToldGroup(2, 1 + (target > 3), f"0, {target}")
    assert found == Move(made.name, "Send-1", "stages", "Send", group, 16, seconds)


class Layers(nn.Cell):
    """Two products, the second of which takes the rows of the first as columns."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Dense(32, 32, has_bias=False) for _ in range(2))
        self.first.matmul.shard(((1, 1), (4, 1)))
        self.second.matmul.shard(((2, 1), (1, 1)))

    def construct(self, x: Tensor) -> Tensor:
        return self.second(self.first(x)).mean()


def trained() -> ShardedGraph:
    network = Layers()
    step = nn.TrainOneStepCell(network, nn.Momentum(network.trainable_params(), 0.1, 0.9)).set_train()
    configuration = ParallelConfiguration("semi_auto_parallel", device_num=4)
    return step.sharded_graph(Tensor(np.ones((16, 32), np.float32)), configuration=configuration)


def test_each_move_is_told_with_the_operator_that_it_is_for_and_the_phase_of_the_step() -> None:
    sharded = trained()
    timed = timed_nodes(sharded, Prices(Machine(ranks_per_host=4)))
    moves = [*moves_of(timed, Owners(sharded), Machine(ranks_per_host=4), 0)]
    collectives = [one for one in timed if one.step is not None and one.step.kind != "slice"]
    assert [(move.byte_count, move.seconds) for move in moves] == [(one.byte_count, one.seconds) for one in collectives]
    names = [node.name for node in sharded.graph.nodes if node.is_forward and node.operator.name == "MatMul"]
    first, second = names
    told = {(move.kind, move.phase, move.operator) for move in moves}
    # What the first leaves by columns is taken by rows; so is its gradient, the other way.
    assert {one for one in told if one[1] == "forward"} >= {("AllToAll", "forward", first)}
    assert any(phase == "backward" and operator in names for _, phase, operator in told)
    # The weight of the second is whole on all ranks, so its gradient is summed.
    assert ("AllReduce", "gradients", second) in told
    assert {phase for _, phase, _ in told} <= {"forward", "backward", "gradients", "update", "weights and inputs"}
    assert {move.group.size for move in moves} <= {2, 4}


def test_a_node_of_a_gradient_belongs_to_the_operator_whose_gradient_it_is() -> None:
    sharded = trained()
    owners = Owners(sharded)
    for node in sharded.graph.nodes:
        origin = node.notes.origin
        if origin is not None:
            assert owners.of_node(node) == origin.name
        elif node.notes.like is None:
            assert owners.of_node(node) == node.name
        assert owners.knows(node.name)
        assert owners.is_forward(node.name) is node.is_forward
    assert not owners.knows("moved")
    assert owners.is_forward("moved") is False
    weight = next(name for name in sharded.graph.parameters if "second" in name and "moment" not in name)
    user = next(node.name for node in sharded.graph.nodes if any(value.name == weight for value in node.inputs))
    assert owners.of_value(weight) == (user, weight, "weights and inputs")
    assert owners.of_value("nobody") == ("optimizer", "nobody", "weights and inputs")
    # What the optimizer alone takes is its own.
    (moment,) = (name for name in sharded.graph.parameters if "second" in name and "moment" in name)
    assert owners.of_value(moment) == ("optimizer", moment, "weights and inputs")
    assert owners.of_value(f"gradient of {weight}") == (user, f"gradient of {weight}", "gradients")
    assert owners.of_value(f"gradient of {moment}") == ("optimizer", f"gradient of {moment}", "gradients")


class Update(P.ReLU):
    """Changes what it is given."""

    updates = (0,)


def test_a_value_moves_for_the_operator_whose_output_or_gradient_it_is_and_an_update_for_itself() -> None:
    graph, spec = Graph(), TensorSpec((4,), np.dtype(np.float32))
    x = graph.add_input("x", spec)
    layer = graph.add_node(P.ReLU(), "layer", [x], [spec])
    nodes = {
        "forward": layer,
        "gradient": graph.add_node(P.ReLU(), "gradient", [x], [spec], Notes(origin=layer)),
        "sum": graph.add_node(P.ReLU(), "sum", [x], [spec], Notes(like=layer.outputs[0])),
        "update": graph.add_node(Update(), "update", [x], [spec]),
    }
    owners = Owners(ShardedGraph(graph, DeviceMatrix((1,))))
    assert {name: owners.of_node(node) for name, node in nodes.items()} == {
        "forward": "layer",
        "gradient": "layer",
        "sum": "layer",
        "update": "update",
    }
    assert owners.of_value("layer:0") == ("layer", "layer:0", "forward")
    assert owners.of_value("gradient:1") == ("layer", "gradient:1", "backward")
    assert owners.of_value("sum:0") == ("layer", "sum:0", "backward")
    assert owners.of_value("update:0") == ("update", "update:0", "update")
    # What a rank makes for itself belongs to none of the network.
    assert owners.of_node(Node(P.ReLU(), "moved", (x,))) == "moved"


def test_of_several_operators_that_take_a_value_the_first_of_the_network_is_told() -> None:
    graph, spec = Graph(), TensorSpec((4,), np.dtype(np.float32))
    x = graph.add_input("x", spec)
    graph.add_node(Update(), "update", [x], [spec])
    for name in ("first", "second"):
        graph.add_node(P.ReLU(), name, [x], [spec])
    owners = Owners(ShardedGraph(graph, DeviceMatrix((1,))))
    assert owners.of_value("x") == ("first", "x", "weights and inputs")
    assert owners.of_value("gradient of x") == ("first", "gradient of x", "gradients")


def test_what_is_cut_without_a_message_is_no_move_and_each_kind_has_its_name() -> None:
    two, graph, spec = DeviceMatrix((2,)), Graph(), TensorSpec((4, 4), np.dtype(np.float32))
    x = graph.add_input("x", spec)
    graph.add_node(P.ReLU(), "net/layer", [x], [spec])
    whole, rows, columns = (Layout((4, 4), two, dims) for dims in (((), ()), ((0,), ()), ((), (0,))))
    terms = Layout((4, 4), two, ((), ()), (0,))
    timed = []
    for ends in ((whole, rows), (rows, whole), (rows, columns), (terms, whole), (terms, rows)):
        (step,) = redistribute(*ends)
        operator = redistributing_operator([step], 0)
        operator.scope = "net/layer:0/moved"
        timed.append(TimedNode(Node(operator, "move", (x,)), 2.0, step))
    found = [*moves_of(timed, Owners(ShardedGraph(graph, two)), Machine(ranks_per_host=1), 0)]
    # Of 64 bytes a rank has all after they are gathered, half after an exchange, and all before they are summed.
    assert [(move.kind, move.byte_count) for move in found] == [
        ("AllGather", 64),
        ("AllToAll", 32),
        ("AllReduce", 64),
        ("ReduceScatter", 64),
    ]
    for move in found:
        assert (move.operator, move.what, move.phase) == ("net/layer", "net/layer:0", "forward")
        assert (move.group, move.seconds) == (ToldGroup(2, 2, "0, 1"), 2.0)
