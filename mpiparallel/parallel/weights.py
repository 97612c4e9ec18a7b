"""Operators without a strategy on weights that others place: they take the weights where these are."""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence

from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.operator_placement import Operands, OperatorPlacement, place_by_batch, place_by_inputs


def values_of_weights(graph: Graph, placed: Container[Node]) -> frozenset[Value]:
    """Return the parameters, and what operators that are not ``placed`` make of parameters and constants alone."""
    found = set(graph.parameters.values())
    for node in graph.nodes:
        own = [value for value in node.inputs if value.constant is None]
        if node.notes.origin is None and own and found.issuperset(own) and node not in placed:
            found.update(node.outputs)
    return frozenset(found)


def place_with_weights(
    operands: Operands, given: Sequence[Layout], weights: Collection[int], devices: DeviceMatrix
) -> OperatorPlacement:
    """Return the placement of an operator without a strategy, some of whose inputs are made of weights alone.

    It is batch parallel, with two exceptions: all inputs are weights, or a weight is cut otherwise than that asks for.
    Then weights stay where they are, and the other inputs come to them.
    """
    if len(weights) == len(given):
        return place_by_inputs(operands, given)
    by_batch = place_by_batch(operands, devices)
    moved = any(
        any(given[index].cutting_axes) and given[index].reduced().canonical != by_batch.inputs[index].canonical
        for index in weights
    )
    return place_by_inputs(operands, given, weights) if moved else by_batch
