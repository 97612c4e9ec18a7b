"""What all problems of a graph have in common that leave the same operators a choice, however few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mpiparallel.compile.strategy_policy import takers_of_gradients
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.search.cost.memory import kept_for_gradient, live_nodes
from mpiparallel.search.problem.choices import Choice, SharedChoices, share_parameters
from mpiparallel.search.problem.folding import Folding
from mpiparallel.search.problem.likeness import Likeness, likeness
from mpiparallel.search.problem.task import Task


@dataclass(frozen=True)
class Outline:
    """Which nodes are ``alike``, how they are folded, and which choices share parameters.

    ``nodes`` are those that anything needs and that count, or take what one that counts makes. ``homes`` are those that
    make a value or take it first; what is made of it counts as many times, by its ``weights``. ``kept`` are the values
    of the network that the gradient reads. ``landed`` are finished gradients and what is made of them. ``order`` has
    the place of each node in the graph. ``takers`` are the first nodes that take what is made in a gradient.
    """

    alike: Likeness
    folding: Folding
    groups: tuple[SharedChoices, ...]
    nodes: tuple[Node, ...]
    homes: Mapping[Value, Node]
    weights: Mapping[Value, int]
    kept: tuple[Value, ...]
    landed: frozenset[Value]
    order: Mapping[Node, int]
    takers: Mapping[Value, Node]

    def weight(self, value: Value) -> int:
        """Return how many times the moves and the memory of a value count."""
        return self.weights.get(value, 1)


def outline_of(
    task: Task, choices: Sequence[Choice], alike: Likeness | None = None, folding: Folding | None = None
) -> Outline:
    """Return the outline of a graph; where there is a ``folding`` the problems are no more exact."""
    alike, folding = alike or likeness(task.graph, task.given, task.held), folding or Folding()
    live = live_nodes(task.graph)
    homes: dict[Value, Node] = {}
    for node in live:
        homes.update((value, node) for value in node.outputs)
        for value in node.inputs:
            homes.setdefault(value, node)
    weights = {value: folding.weight(node) for value, node in homes.items()}

    def counts(node: Node) -> bool:
        first = folding.stands_for.get(node)
        return first is None or any(weights[value] and value not in first.inputs for value in node.inputs)

    return Outline(
        alike,
        folding,
        share_parameters(task.graph, choices),
        tuple(node for node in live if counts(node)),
        homes,
        weights,
        tuple(value for value in kept_for_gradient(task.graph) if weights.get(value, 1)),
        _landed(task.graph),
        {node: place for place, node in enumerate(task.graph.nodes)},
        takers_of_gradients(task.graph),
    )


def _landed(graph: Graph) -> frozenset[Value]:
    found = set(graph.gradients)
    for node in graph.nodes:
        if not found.isdisjoint(node.inputs):
            found.update(node.outputs)
    return frozenset(found)
