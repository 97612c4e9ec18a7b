"""Which updates become one, and what that is called, on graphs that are made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.joined_updates import JoinedUpdates, join_updates
from mpiparallel.graph.graph import Graph, Node, Notes, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.parameter import Parameter


class Decay(Operator):
    """Takes a part of a weight away, by a rate."""

    updates = (0,)
    joins = True

    def __init__(self, power: int = 1) -> None:
        self.power = power


class Alone(Decay):
    """It is never joined."""

    joins = False


class Updates(Graph):
    """Updates of weights of some shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.rate = self.add_input("rate", TensorSpec((), np.dtype(np.float32)))

    def weight(self, *shape: int, kind: type = np.float32) -> Value:
        name = f"w{len(self.parameters)}"
        return self.add_parameter(Parameter(np.ones(shape, kind), name), TensorSpec(shape, np.dtype(kind)))

    def update(self, weight: Value, rate: Value | None = None, operator: Operator | None = None, **notes: Any) -> Node:
        made = (operator or Decay()).configured(scope="network/Decay")
        return self.add_node(made, f"update {len(self.nodes)}", [weight, rate or self.rate], [], Notes(**notes))


def joined(graph: Graph, **settings: bool) -> list[str]:
    join_updates(graph, **settings)
    return [node.name for node in graph.nodes]


def test_what_stands_for_several_updates_is_told_by_the_first_and_how_many_there_are_more() -> None:
    graph = Updates()
    weights = [graph.weight(2), graph.weight(3, 4), graph.weight(5)]
    nodes = [graph.update(weight) for weight in weights]
    assert joined(graph) == ["update 0 and 2 more"]
    (node,) = graph.nodes
    assert isinstance(node.operator, JoinedUpdates)
    assert (node.operator.name, node.operator.scope, node.members) == ("Decay", "network/Decay", tuple(nodes))
    # Weights one after the other, and the rate once for all.
    assert node.inputs == (*weights, graph.rate)
    assert node.operator.updates == (0, 1, 2)


@pytest.mark.parametrize(
    ("second", "names"),
    [
        (lambda graph: graph.update(graph.weight(3)), ["update 0 and 1 more"]),
        (lambda graph: graph.update(graph.weight(3), operator=Decay(2)), ["update 0", "update 1"]),
        (lambda graph: graph.update(graph.weight(3), operator=Alone()), ["update 1", "update 0"]),
        (
            lambda graph: graph.update(graph.weight(3), graph.add_input("other", graph.rate.spec)),
            ["update 0", "update 1"],
        ),
        (lambda graph: graph.update(graph.weight(3, kind=np.float64)), ["update 0", "update 1"]),
        (lambda graph: graph.update(graph.weight(3), guards=(graph.rate,)), ["update 0", "update 1"]),
        # Of no elements, or of one that is no array, nothing is joined.
        (lambda graph: graph.update(graph.weight(0)), ["update 1", "update 0"]),
        (lambda graph: graph.update(graph.weight()), ["update 1", "update 0"]),
    ],
    ids=["alike", "another-rule", "alone", "another-rate", "another-dtype", "under-guards", "empty", "scalar"],
)
def test_updates_by_one_rule_of_one_dtype_with_one_rate_under_the_same_guards_become_one(
    second: Any, names: list[str]
) -> None:
    graph = Updates()
    graph.update(graph.weight(2))
    second(graph)
    assert joined(graph) == names


def test_equal_constants_are_one_rate() -> None:
    graph = Updates()
    rates = [graph.add_constant(np.array(rate, np.float32)) for rate in (0.5, 0.5, 0.25)]
    for rate in rates:
        graph.update(graph.weight(2), rate)
    assert joined(graph) == ["update 0 and 1 more", "update 2"]
    assert graph.nodes[0].inputs[2:] == (rates[0],)


def test_updates_wait_until_what_they_change_is_read_or_what_they_read_is_changed() -> None:
    graph = Updates()
    first, second, third = (graph.weight(2) for _ in range(3))
    graph.update(first)
    graph.update(second)
    graph.add_node(ops.ReLU(), "reads the third", [third], [third.spec])
    graph.add_node(ops.ReLU(), "reads the first", [first], [first.spec])
    graph.update(third)
    assert joined(graph) == ["reads the third", "update 0 and 1 more", "reads the first", "update 4"]
    graph = Updates()
    rate = graph.weight()
    graph.update(graph.weight(2), rate)
    graph.add_node(Alone(), "changes the rate", [rate, graph.rate], [])
    graph.update(graph.weight(2), rate)
    assert joined(graph) == ["update 0", "changes the rate", "update 2"]


def test_large_parameters_are_updated_alone_unless_a_device_takes_those_of_any_size() -> None:
    for settings, names in (({}, ["update 0", "update 1"]), ({"of_any_size": True}, ["update 0 and 1 more"])):
        graph = Updates()
        for _ in range(2):
            graph.update(graph.weight(1 << 20))
        assert joined(graph, **settings) == names
