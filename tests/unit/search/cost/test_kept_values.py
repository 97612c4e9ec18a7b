"""What a rank keeps of a pass for its gradient, on graphs that are made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.graph.graph import Graph, Node, Notes, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.operator_settings import Segment
from mpiparallel.graph.parameter import Parameter
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.search.cost.memory import RankMemory, bytes_kept, kept_for_gradient, live_nodes

SPEC = TensorSpec((8, 6), np.dtype(np.float32))


class Update(Operator):
    """Changes its first input."""

    updates = (0,)


@pytest.fixture
def graph() -> Graph:
    return Graph(inputs=[Value(SPEC, "x")])


def made(graph: Graph, *inputs: Value, operator: Operator | None = None, notes: Notes | None = None) -> Node:
    return graph.add_node(operator or ops.ReLU(), "made", inputs, [SPEC], notes or Notes())


def test_what_an_output_or_an_update_needs_is_live_and_the_graph_stays_whole(graph: Graph) -> None:
    (x,) = graph.inputs
    weight = graph.add_parameter(Parameter(np.ones((8, 6), np.float32), "weight"), SPEC)
    first, dead = made(graph, x), made(graph, x)
    changed, update = made(graph, x), made(graph, weight, operator=Update())
    graph.outputs = [first.outputs[0]]
    assert live_nodes(graph) == [first, update]
    assert graph.nodes == [first, dead, changed, update]


def test_what_a_gradient_or_an_update_reads_of_the_network_is_kept(graph: Graph) -> None:
    (x,) = graph.inputs
    weight = graph.add_parameter(Parameter(np.ones((8, 6), np.float32), "weight"), SPEC)
    unread, read, added, updating = (made(graph, x) for _ in range(4))
    gradient = made(graph, read.outputs[0], notes=Notes(origin=read))
    total = made(graph, added.outputs[0], notes=Notes(like=x))
    made(graph, weight, updating.outputs[0], operator=Update())
    made(graph, gradient.outputs[0], total.outputs[0], notes=Notes(origin=unread))
    assert kept_for_gradient(graph.nodes) == [one.outputs[0] for one in (read, added, updating)]


def test_what_shows_memory_only_is_not_kept_beside_what_it_shows(graph: Graph) -> None:
    shown = made(graph, graph.inputs[0], operator=ops.ExpandDims())
    made(graph, shown.outputs[0], notes=Notes(origin=shown))
    assert kept_for_gradient(graph.nodes) == []


def test_of_what_is_computed_once_more_only_what_it_begins_with_is_kept(graph: Graph) -> None:
    begin = made(graph, graph.inputs[0])
    first = made(graph, begin.outputs[0], notes=Notes(segment=Segment()))
    again = made(graph, begin.outputs[0], notes=Notes(segment=Segment(recomputed=True)))
    made(graph, again.outputs[0], notes=Notes(origin=first))
    assert kept_for_gradient(graph.nodes) == [begin.outputs[0]]


def test_bytes_are_those_of_parameters_as_they_are_stored_and_of_what_is_kept_where_it_is(graph: Graph) -> None:
    ranks = DeviceMatrix((4,))
    weight = graph.add_parameter(Parameter(np.ones((8, 6), np.float32), "weight"), SPEC)
    kept, other = made(graph, graph.inputs[0]).outputs[0], made(graph, graph.inputs[0]).outputs[0]
    rows, columns = Layout((8, 6), ranks, ((0,), ())), Layout((8, 6), ranks, ((), (0,)))
    whole = Layout.replicated((8, 6), ranks)
    sharded = ShardedGraph(graph, ranks, layouts={kept: columns, other: whole, weight: whole}, stored={"weight": rows})
    # Two of eight rows are stored; of six columns the first rank has two.
    assert bytes_kept(sharded, [kept]) == 4 * (2 * 6 + 8 * 2)
    assert bytes_kept(sharded, []) == 4 * 2 * 6


def test_a_rank_holds_weights_states_and_its_arena() -> None:
    assert RankMemory(weights=100, states=20, arena=3).total == 123
