"""Which nodes are alike: by what they are themselves, and by what is around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.strategies import Strategies
from mpiparallel.graph.graph import Graph, Node, Notes, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.operator_settings import Segment
from mpiparallel.graph.parameter import Parameter
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.search.problem.likeness import likeness

SPEC = TensorSpec((4, 4), np.dtype(np.float32))
NONE = Strategies({})


def groups(numbers: dict[Node, int]) -> list[int]:
    """The numbers of nodes, counted anew as they are met first."""
    known: dict[int, int] = {}
    return [known.setdefault(number, len(known)) for number in numbers.values()]


def chain(length: int) -> Graph:
    graph = Graph()
    value = graph.add_input("x", SPEC)
    for place in range(length):
        (value,) = graph.add_node(ops.ReLU(), f"layer {place}", [value], [SPEC]).outputs
    graph.outputs = [value]
    return graph


def test_layers_are_alike_but_for_those_near_the_ends() -> None:
    found = likeness(chain(9), NONE, {})
    # By itself only what takes the input, and what makes the output, is other than the rest.
    assert groups(found.alone) == [0, 1, 1, 1, 1, 1, 1, 1, 2]
    assert groups(found.around) == [0, 1, 2, 3, 3, 3, 4, 5, 6]


def weight(graph: Graph, name: str, **settings: Any) -> Value:
    parameter = Parameter(np.ones((4, 4), np.float32), name)
    for setting, value in settings.items():
        setattr(parameter, setting, value)
    return graph.add_parameter(parameter, SPEC)


def add(graph: Graph, *inputs: Value, operator: Operator | None = None, **notes: Any) -> Node:
    return graph.add_node(operator or ops.Add(), "one", inputs, [SPEC], Notes(**notes))


def pair(first: dict[str, Any], second: dict[str, Any]) -> Callable[[Graph, Value], None]:
    """Make two nodes of one input and a weight each, with other notes."""

    def make(graph: Graph, x: Value) -> None:
        for place, notes in enumerate((first, second)):
            add(graph, x, weight(graph, f"w{place}"), **notes)

    return make


def of_weights(first: dict[str, Any], second: dict[str, Any]) -> Callable[[Graph, Value], None]:
    def make(graph: Graph, x: Value) -> None:
        for place, settings in enumerate((first, second)):
            add(graph, x, weight(graph, f"w{place}", **settings))

    return make


def of_constants(*arrays: np.ndarray[Any, Any]) -> Callable[[Graph, Value], None]:
    def make(graph: Graph, x: Value) -> None:
        for array in arrays:
            add(graph, x, graph.add_constant(array))

    return make


def of_sides(graph: Graph, x: Value) -> None:
    add(graph, x, x)
    add(graph, x, graph.add_input("y", SPEC))


def of_one_constant(graph: Graph, x: Value) -> None:
    """A large one is not read: it is alike where it is the same value."""
    constant = graph.add_constant(LARGE)
    for _ in range(2):
        add(graph, x, constant)


def of_operators(graph: Graph, x: Value) -> None:
    add(graph, x, operator=ops.ReduceSum())
    add(graph, x, operator=ops.ReduceSum(keep_dims=True))


GUARD = Value(SPEC, "guard")
SMALL, LARGE = np.ones((1, 63), np.float32), np.ones((1, 64), np.float32)


@pytest.mark.parametrize(
    ("make", "is_alike"),
    [
        (pair({}, {}), True),
        (pair({}, {"follows": True}), False),
        (pair({}, {"like": GUARD}), False),
        (pair({}, {"guards": (GUARD,)}), False),
        (pair({"stage": 0}, {"stage": 1}), False),
        (pair({"segment": Segment()}, {"segment": Segment()}), True),
        (pair({}, {"segment": Segment()}), False),
        (pair({"segment": Segment()}, {"segment": Segment(recomputed=True)}), False),
        (pair({"segment": Segment()}, {"segment": Segment(regathers=True)}), False),
        (of_weights({}, {"requires_grad": False}), False),
        (of_weights({}, {"parallel_optimizer": False}), False),
        (of_weights({}, {"layerwise_parallel": True}), False),
        (of_constants(SMALL, SMALL.copy()), True),
        (of_constants(SMALL, 2 * SMALL), False),
        (of_constants(LARGE, LARGE), False),
        (of_one_constant, True),
        (of_sides, False),
        (of_operators, False),
    ],
)
def test_nodes_are_alike_alone_by_what_they_compute_of_what(
    make: Callable[[Graph, Value], None], is_alike: bool
) -> None:
    graph = Graph()
    make(graph, graph.add_input("x", SPEC))
    first, second = likeness(graph, NONE, {}).alone.values()
    assert (first == second) is is_alike


def test_nodes_that_others_have_placed_otherwise_are_not_alike() -> None:
    graph = Graph()
    x = graph.add_input("x", SPEC)
    nodes = [add(graph, x, weight(graph, f"w{place}")) for place in range(4)]
    cut = Layout((4, 4), DeviceMatrix((2,)), ((0,), ()))
    given = Strategies({nodes[2]: ((2, 1), (2, 1))}, {nodes[3]: ((1, 2),)})
    found = likeness(graph, given, {"w1": cut})
    assert groups(found.alone) == [0, 1, 2, 3]


def test_a_value_that_is_returned_or_is_a_finished_gradient_tells_its_maker_from_others() -> None:
    graph = Graph()
    x = graph.add_input("x", SPEC)
    plain, twin, returned, landed = (add(graph, x, operator=ops.ReLU()) for _ in range(4))
    graph.outputs = [*returned.outputs]
    graph.gradients = {landed.outputs[0]: weight(graph, "w")}
    assert groups(likeness(graph, NONE, {}).alone) == [0, 0, 1, 2]
    assert plain is not twin


def test_who_takes_what_a_node_makes_and_whose_gradient_it_is_tells_it_from_others() -> None:
    graph = Graph()
    x, y = (graph.add_input(name, SPEC) for name in "xy")
    nodes = [add(graph, x, operator=ops.ReLU()) for _ in range(4)]
    for place, node in enumerate(nodes[:2]):
        add(graph, *[node.outputs[0], y][:: 1 - 2 * place])
    told = likeness(graph, NONE, {})
    alone, around = groups(told.alone), groups(told.around)
    assert alone[:4] == [0, 0, 0, 0]
    assert around[2] == around[3]
    assert len(set(around[:3])) == 3
    origins = [add(graph, x, operator=ops.ReLU()) for _ in range(2)]
    graph.cotangents = {origins[0]: (y,), origins[1]: ()}
    of_gradients = [add(graph, y, operator=ops.ReLU(), origin=origin) for origin in origins]
    found = likeness(graph, NONE, {}).around
    assert found[of_gradients[0]] != found[of_gradients[1]]
