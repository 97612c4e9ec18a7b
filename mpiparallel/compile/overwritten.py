"""Which parameters have been overwritten since a node ran."""

from __future__ import annotations

from collections.abc import Iterable

from mpiparallel.graph.graph import Graph, Node, Value


class Overwritten:
    """The parameters that the nodes of a graph overwrite, and when, as the graph is now."""

    def __init__(self, graph: Graph) -> None:
        self._position = {node: position for position, node in enumerate(graph.nodes)}
        self._last: dict[Value, int] = {}
        for position, node in enumerate(graph.nodes):
            self._last.update((node.inputs[index], position) for index in node.operator.updates)

    def since(self, node: Node, values: Iterable[Value]) -> Value | None:
        """Return the first of the values that is overwritten after ``node``; None where all are as they were."""
        return next((value for value in values if self._last.get(value, -1) > self._position[node]), None)
