"""Which element-wise operators become one, on graphs that are made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.elementwise_fusion import FusedElementwise, fuse_elementwise
from mpiparallel.graph.cost import ELEMENTWISE
from mpiparallel.graph.expression.term import Term
from mpiparallel.graph.graph import Graph, Node, Notes, Value
from mpiparallel.graph.operator import Operator

FLAG = Value(TensorSpec((), np.dtype(np.float32)), "flag")


def spec(*shape: int) -> TensorSpec:
    return TensorSpec(shape, np.dtype(np.float32))


def add(graph: Graph, operator: Operator, *inputs: Value, of: TensorSpec | None = None, **notes: Any) -> Value:
    node = graph.add_node(operator, operator.name, inputs, [of or inputs[0].spec], Notes(**notes))
    return node.outputs[0]


def names(graph: Graph, **settings: Any) -> list[str]:
    fuse_elementwise(graph, **settings)
    return [node.operator.name for node in graph.nodes]


def chain(size: int) -> Graph:
    graph = Graph()
    x = graph.add_input("x", spec(size))
    graph.outputs = [add(graph, ops.Sqrt(), add(graph, ops.ReLU(), x))]
    return graph


@pytest.mark.parametrize(
    ("size", "settings", "wanted"),
    [
        (1024, {}, ["ReLU+Sqrt"]),
        (1023, {}, ["ReLU", "Sqrt"]),
        (4, {"smallest": 4}, ["ReLU+Sqrt"]),
        (3, {"smallest": 4}, ["ReLU", "Sqrt"]),
        (0, {"smallest": 0}, ["ReLU+Sqrt"]),
    ],
)
def test_only_large_tensors_are_worth_it(size: int, settings: dict[str, int], wanted: list[str]) -> None:
    assert names(chain(size), **settings) == wanted


def test_what_stands_for_several_has_their_names_and_is_measured_as_element_wise() -> None:
    graph = Graph()
    x = graph.add_input("x", spec(4))
    first = add(graph, ops.Sqrt(), x)
    graph.outputs = [add(graph, ops.Add(), add(graph, ops.Sqrt(), first), first)]
    members = tuple(graph.nodes)
    fuse_elementwise(graph, 1)
    (node,) = graph.nodes
    assert (node.operator.name, node.name, node.members) == ("2 Sqrt+Add", "Add", members)
    assert (node.inputs, node.outputs) == ((x,), tuple(graph.outputs))
    assert isinstance(node.operator, FusedElementwise)
    assert node.operator.kernel_names([], []) == ("2 Sqrt+Add", ELEMENTWISE)
    # The result may lie where the input was, which has the same shape.
    assert node.operator.reuses == (0,)
    assert graph.outputs[0].node is node


def test_what_others_read_stays_an_output_the_whole_ones_first() -> None:
    graph = Graph()
    x = graph.add_input("x", spec(4, 8))
    root = add(graph, ops.Sqrt(), x)
    total = add(graph, ops.ReduceSum().configured(axis=(1,)), root, of=spec(4))
    graph.outputs = [total, root]
    fuse_elementwise(graph, 1)
    (node,) = graph.nodes
    assert node.operator.name == "Sqrt+ReduceSum"
    assert node.outputs == (root, total)
    assert [(value.node, value.index) for value in (root, total)] == [(node, 0), (node, 1)]


def test_a_value_that_is_made_twice_is_made_once() -> None:
    graph = Graph()
    x = graph.add_input("x", spec(4))
    root = add(graph, ops.Sqrt(), x)
    same = add(graph, ops.Cast().configured(dtype=np.dtype(np.float32)), root)
    reader = graph.add_node(ops.MatMul(), "MatMul", [same, root], [spec()])
    graph.outputs = [root, same, *reader.outputs]
    fuse_elementwise(graph, 1)
    assert [node.operator.name for node in graph.nodes] == ["Sqrt+Cast", "MatMul"]
    assert reader.inputs == (root, root)
    assert graph.outputs == [root, root, *reader.outputs]


@pytest.mark.parametrize(("operands", "wanted"), [(24, 1), (25, 2)])
def test_a_kernel_reads_no_more_than_24_tensors(operands: int, wanted: int) -> None:
    graph = Graph()
    total = graph.add_input("0", spec(4))
    for place in range(1, operands):
        total = add(graph, ops.Add(), total, graph.add_input(str(place), spec(4)))
    graph.outputs = [total]
    assert len(names(graph, smallest=1)) == wanted


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ((), (), ["ReLU+Sqrt"]),
        ((FLAG,), (FLAG,), ["ReLU+Sqrt"]),
        ((FLAG,), (), ["ReLU", "Sqrt"]),
        ((), (FLAG,), ["ReLU", "Sqrt"]),
    ],
)
def test_what_runs_under_other_guards_stays_apart(
    first: tuple[Value, ...], second: tuple[Value, ...], wanted: list[str]
) -> None:
    graph = Graph()
    made = add(graph, ops.ReLU(), graph.add_input("x", spec(4)), guards=first)
    graph.outputs = [add(graph, ops.Sqrt(), made, guards=second)]
    assert names(graph, smallest=1) == wanted


def test_what_is_spread_over_a_larger_shape_stays_apart() -> None:
    graph = Graph()
    small = add(graph, ops.ReLU(), graph.add_input("x", spec(1, 4)))
    graph.outputs = [add(graph, ops.Add(), small, graph.add_input("y", spec(3, 4)), of=spec(3, 4))]
    assert names(graph, smallest=1) == ["ReLU", "Add"]


class Read(Operator):
    """It is not said in terms."""


class Overwrite(Operator):
    """Changes its first input."""

    updates = (0,)


@pytest.mark.parametrize("between", ["a reader", "an update", "neither"])
def test_nodes_that_something_between_them_depends_on_stay_where_they_are(between: str) -> None:
    graph = Graph()
    x, y = (graph.add_input(name, spec(4)) for name in "xy")
    first = add(graph, ops.ReLU(), x)
    if between == "a reader":
        y = add(graph, Read(), first)
    elif between == "an update":
        graph.add_node(Overwrite(), "Overwrite", [x, y], [])
    graph.outputs = [add(graph, ops.Add(), first, y)]
    wanted = {
        "a reader": ["ReLU", "Read", "Add"],
        "an update": ["ReLU", "Overwrite", "Add"],
        "neither": ["ReLU+Add"],
    }
    assert names(graph, smallest=1) == wanted[between]


def test_nodes_wait_for_what_comes_between_and_does_not_need_them() -> None:
    graph = Graph()
    x, y = (graph.add_input(name, spec(4)) for name in "xy")
    first = add(graph, ops.ReLU(), x)
    other = add(graph, Read(), y)
    graph.outputs = [add(graph, ops.Sqrt(), first), other]
    assert names(graph, smallest=1) == ["Read", "ReLU+Sqrt"]


@pytest.mark.parametrize(("dims", "wanted"), [((1,), ["Sqrt+ReduceSum+Sub"]), ((0,), ["Sqrt+ReduceSum", "Sub"])])
def test_what_is_made_of_sums_over_the_last_dim_is_made_in_one_pass(dims: tuple[int, ...], wanted: list[str]) -> None:
    graph = Graph()
    x = graph.add_input("x", spec(8, 8))
    root = add(graph, ops.Sqrt(), x)
    total = add(
        graph,
        ops.ReduceSum(keep_dims=True).configured(axis=dims),
        root,
        of=spec(*(1 if place in dims else 8 for place in range(2))),
    )
    graph.outputs = [add(graph, ops.Sub(), root, total)]
    assert names(graph, smallest=1) == wanted


def test_members_of_a_group_keep_their_place_and_order() -> None:
    graph = Graph()
    x = graph.add_input("x", spec(4))
    left, right = add(graph, ops.ReLU(), x), add(graph, ops.Sqrt(), x)
    graph.outputs = [add(graph, ops.Sub(), right, left)]
    members: tuple[Node, ...] = tuple(graph.nodes)
    fuse_elementwise(graph, 1)
    assert [node.members for node in graph.nodes] == [members]


def test_three_that_become_one_run_where_the_last_of_them_is() -> None:
    graph = Graph()
    x, y = (graph.add_input(name, spec(4)) for name in "xy")
    second = add(graph, ops.Sqrt(), add(graph, ops.ReLU(), x))
    other = add(graph, Read(), y)
    graph.outputs = [add(graph, ops.Sin(), second), other]
    assert names(graph, smallest=1) == ["Read", "ReLU+Sqrt+Sin"]


@pytest.mark.parametrize("reader", ["a node", "a guard", "another group"])
def test_what_something_outside_of_a_group_reads_is_an_output_of_it(reader: str) -> None:
    graph = Graph()
    first = add(graph, ops.ReLU(), graph.add_input("x", spec(4)))
    second = add(graph, ops.Sqrt(), first)
    if reader == "a node":
        last = add(graph, Read(), first)
    elif reader == "a guard":
        last = add(graph, Read(), second, guards=(first,))
    else:
        last = add(graph, ops.Sin(), add(graph, ops.Neg(), first, guards=(FLAG,)), guards=(FLAG,))
    graph.outputs = [second, last]
    fuse_elementwise(graph, 1)
    assert graph.nodes[0].outputs == (first, second)
    assert graph.nodes[1].outputs == (last,)


def test_a_node_that_nothing_joins_stays_what_it_is() -> None:
    graph = Graph()
    graph.outputs = [add(graph, ops.ReLU(), graph.add_input("x", spec(4)))]
    (node,) = graph.nodes
    fuse_elementwise(graph, 1)
    assert graph.nodes == [node]
    assert isinstance(node.operator, ops.ReLU)


class Shown(Operator):
    """Shows its input, as it says in terms."""

    is_view = True

    def expression(self, *inputs: Term) -> Sequence[Term]:
        return inputs


class Counted(Shown):
    """Changes its input, and gives it."""

    is_view = False
    updates = (0,)


@pytest.mark.parametrize("operator", [Shown, Counted])
def test_what_shows_or_changes_its_input_stays_apart(operator: type[Operator]) -> None:
    graph = Graph()
    first = add(graph, operator(), graph.add_input("x", spec(4)))
    graph.outputs = [add(graph, ops.Sqrt(), first)]
    assert names(graph, smallest=1) == [operator.__name__, "Sqrt"]
