"""What all problems of a graph have in common that leave the same operators a choice, however few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.strategy_policy import StrategyPolicy, takers_of_gradients
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.search.problem.choices import Choice, SharedChoices, share_parameters
from mpiparallel.search.problem.folding import Folding
from mpiparallel.search.problem.likeness import Likeness, likeness
from mpiparallel.search.problem.task import Task


@dataclass(frozen=True)
class Outline:
    """Which nodes are ``alike``, how they are folded, and which choices share parameters, but for folded ones.

    ``nodes`` are those that anything needs and that count, or take what one that counts makes. ``homes`` are those that
    make a value or take it first; what is made of it counts as many times, by its ``weights``. ``kept`` are the values
    of the network that the gradient reads. ``landed`` are finished gradients and what is made of them. ``order`` has
    the place of each node in the graph. ``takers`` are the first nodes that take what is made in a gradient. ``begun``
    has where the inputs are, and the parameters that no choice lays out.
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
    begun: ShardedGraph

    def weight(self, value: Value) -> int:
        """Return how many times the moves and the memory of a value count."""
        return self.weights.get(value, 1)


def outline_of(
    task: Task, choices: Sequence[Choice], alike: Likeness | None = None, folding: Folding | None = None
) -> Outline:
    """Return the outline of a graph; where there is a ``folding`` the problems are no more exact."""
    alike, folding = alike or likeness(task.graph, task.given, task.held), folding or Folding()
    homes: dict[Value, Node] = {}
    for node in task.live:
        homes.update((value, node) for value in node.outputs)
        for value in node.inputs:
            homes.setdefault(value, node)
    weights = {value: folding.weight(node) for value, node in homes.items()}

    def counts(node: Node) -> bool:
        first = folding.stands_for.get(node)
        return first is None or any(weights[value] and value not in first.inputs for value in node.inputs)

    groups = share_parameters(task.graph, choices)
    return Outline(
        alike,
        folding,
        tuple(group for group in groups if not folding.stands_for.keys() >= set(group.chosen)),
        tuple(node for node in task.live if counts(node)),
        homes,
        weights,
        tuple(value for value in task.kept if weights.get(value, 1)),
        _landed(task.graph),
        {node: place for place, node in enumerate(task.graph.nodes)},
        takers_of_gradients(task.graph),
        _begun(task, choices, {value for group in groups for value in group.parameters}),
    )


def _begun(task: Task, choices: Sequence[Choice], shared: set[Value]) -> ShardedGraph:
    """Return the graph of what is left without the choices and the parameters that they share, as it is laid out."""
    graph, chosen = task.graph, {node for choice in choices for node in choice.nodes}
    users = Graph(
        inputs=graph.inputs,
        nodes=[node for node in graph.nodes if node not in chosen and shared.isdisjoint(node.inputs)],
        parameters={name: value for name, value in graph.parameters.items() if value not in shared},
    )
    begun = ShardedGraph(users, DeviceMatrix((task.configuration.device_num,)))
    StrategyPolicy(begun, task.given, task.held, task.configuration).begin()
    return begun


def _landed(graph: Graph) -> frozenset[Value]:
    found = set(graph.gradients)
    for node in graph.nodes:
        if not found.isdisjoint(node.inputs):
            found.update(node.outputs)
    return frozenset(found)
