"""In which stages of a pipeline each node can run, and each parameter is."""

from __future__ import annotations

from collections.abc import Mapping

from mpiparallel.compile.staging.work import Work
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.pipeline.placement import Placement

Homes = frozenset[int]


def find_homes(graph: Graph, works: Mapping[Node, Work], placement: Placement) -> Mapping[Node, Homes]:
    """Return the stages that can run each node; what else they need for it is sent there.

    A node of the network is where its work is. Another is where the parameters are that it reads. If it reads none, it
    is in the stage that all it depends on is from. If that is not one stage, it may be anywhere. A parameter is where
    the network uses it. A gradient that is kept, or a moment, is where its weight is. Another parameter is where the
    value that it is set to is from. What is nobody's own, such as a counter, and the flags of guards are in all stages.
    Raises ConfigurationError for a node that can run nowhere.
    """
    finder = _HomeFinder(graph, works, placement)
    # What a parameter is set to may come from a later reading of another.
    finder.visit()
    finder.visit()
    return finder.homes


class _HomeFinder:
    def __init__(self, graph: Graph, works: Mapping[Node, Work], placement: Placement) -> None:
        self._graph = graph
        self._works = works
        self._placement = placement
        self._all = frozenset(placement.stages)
        self._flags = {flag for node in graph.nodes for flag in node.notes.guards}
        self._parameters = self._used_in_network()
        self._depends: dict[Node, Homes] = {}
        self.homes: dict[Node, Homes] = {}

    def _used_in_network(self) -> dict[Value, Homes]:
        used: dict[Value, Homes] = {}
        for node, work in self._works.items():
            for value in node.inputs:
                if value.parameter is not None:
                    used[value] = used.get(value, frozenset()) | {self._placement.stages[work.part]}
        kept = {total: weight for total, weight in self._graph.gradients.items() if total.parameter is not None}
        used.update((total, used[weight]) for total, weight in kept.items() if weight in used)
        return used

    def visit(self) -> None:
        """Find the stages of all nodes, from those of the parameters as far as they are known."""
        for node in self._graph.nodes:
            work = self._works.get(node)
            if work is not None:
                self._depends[node] = self.homes[node] = frozenset([self._placement.stages[work.part]])
                continue
            read = [self._parameters[value] for value in node.inputs if value in self._parameters]
            depends = frozenset().union(*read, *(self._depends[value.node] for value in node.inputs if value.node))
            if node.operator.meets_all:
                depends, read = self._all, []
            updated = [node.inputs[index] for index in node.operator.updates]
            if updated and not read and len(depends) == 1 and not self._flags.intersection(updated):
                read = [depends]
            self._parameters.update((value, frozenset().union(*read)) for value in updated if read)
            self._depends[node] = depends
            if read:
                self.homes[node] = frozenset.intersection(*read) or self._refuse(node)
            else:
                self.homes[node] = depends if len(depends) == 1 and not updated else self._all

    def _refuse(self, node: Node) -> Homes:
        told = ", ".join(
            f"{value.name!r} of stage {min(self._parameters[value])}"
            for value in node.inputs
            if value in self._parameters
        )
        raise ConfigurationError(
            f"{node.name}: it reads the parameters {told}, which no stage of the pipeline has together; compute of "
            "each what is needed first, and put the results together"
        )
