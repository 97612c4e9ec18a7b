"""What is chosen: the strategy of each forward operator that can have one."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from typing import Final

from mpiparallel.compile.policy import operands_of
from mpiparallel.compile.recomputation import RECOMPUTED
from mpiparallel.compile.strategies import Strategies
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import StrategyError
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.graph.operator import Strategy
from mpiparallel.parallel.legal_strategies import legal_strategies
from mpiparallel.parallel.operator_placement import ShardingRule
from mpiparallel.search.cost.operator_key import operator_key

_RULES_KEPT: Final = 1 << 10


@dataclass(frozen=True)
class Choice:
    """A node and the strategies that it may have; one alone where the program says it.

    ``again`` are the nodes that compute the same once more for the gradient, and are cut alike. So are those of
    ``others``, where the same layer stands several times and all of them are decided on together.
    """

    node: Node
    options: tuple[Strategy, ...]
    again: tuple[Node, ...] = ()
    others: tuple[tuple[Node, ...], ...] = ()

    @property
    def places(self) -> tuple[tuple[Node, ...], ...]:
        """The nodes in each place where it stands: the first computes, the others do so once more."""
        return ((self.node, *self.again), *self.others)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All that are cut so."""
        return tuple(node for place in self.places for node in place)

    @property
    def is_free(self) -> bool:
        """Whether there is anything to choose."""
        return len(self.options) > 1


def choices_of(graph: Graph, given: Strategies, devices: int) -> tuple[Choice, ...]:
    """Return the choices of a graph on so many devices; strategies that are ``given`` stay as they are.

    No dim is cut into more parts than it has elements. Gradients and updates, and what follows its input, are placed by
    rules.
    """
    found = []
    again = _computed_again(graph)
    known: dict[Hashable, tuple[Strategy, ...]] = {}
    copies = {copy for of_node in again.values() for copy in of_node}
    for node in graph.nodes:
        if not node.is_forward or node in copies:
            continue
        strategy = given.inputs.get(node)
        if strategy is not None:
            found.append(Choice(node, (strategy,), again.get(node, ())))
        elif not (node.notes.follows or node.operator.follows or node.operator.keeps_layouts):
            key = operator_key(node.operator), tuple(value.spec for value in node.inputs)
            options = known.get(key)
            if options is None:
                options = known[key] = options_of(node, devices)
            if options:
                found.append(Choice(node, options, again.get(node, ())))
    return tuple(found)


def _computed_again(graph: Graph) -> dict[Node, tuple[Node, ...]]:
    """Return the nodes that compute the same as one of the network, once more."""
    found: dict[Node, tuple[Node, ...]] = {}
    first = {(node.operator, node.name, node.notes.micro_batch): node for node in graph.nodes if node.is_forward}
    for node in graph.nodes:
        if node.is_forward and node.notes.segment is not None and node.notes.segment.recomputed:
            name = node.name.removeprefix(RECOMPUTED)
            original = first.get((node.operator, name, node.notes.micro_batch))
            if original is not None and original is not node:
                found[original] = (*found.get(original, ()), node)
    return found


def options_of(node: Node, devices: int) -> tuple[Strategy, ...]:
    """Return the strategies that a node may have on so many devices; none where it is placed by rules."""
    if not node.operator.has_rule:
        return ()
    try:
        rule = operands_of(node).rule
    except StrategyError:
        return ()
    return _legal(rule, devices)


@lru_cache(_RULES_KEPT)
def _legal(rule: ShardingRule, devices: int) -> tuple[Strategy, ...]:
    """Return the strategies of operators that can be placed alike; it is one object for all of them."""
    extents = rule.extents()
    return tuple(
        strategy
        for strategy in legal_strategies(rule.equation, devices)
        if all(
            cut <= extents.get(label or "", 1)
            for cuts, labels in zip(strategy, rule.equation.strategy_inputs, strict=True)
            for cut, label in zip(cuts, labels, strict=True)
        )
    )


@dataclass(frozen=True)
class SharedChoices:
    """Places of choices whose operators use a parameter in common: the number of each choice, and its nodes there.

    ``nodes`` are all of these, and casts before.
    """

    places: tuple[tuple[int, tuple[Node, ...]], ...]
    nodes: tuple[Node, ...]
    parameters: tuple[Value, ...]

    @property
    def choices(self) -> tuple[int, ...]:
        """The numbers of the choices."""
        return tuple(sorted({number for number, _ in self.places}))

    @property
    def chosen(self) -> tuple[Node, ...]:
        """The nodes that are chosen for."""
        return tuple(node for _, nodes in self.places for node in nodes)


def share_parameters(graph: Graph, choices: Sequence[Choice]) -> tuple[SharedChoices, ...]:
    """Return the places of choices in groups: operators that use one parameter, or a cast of it, are in one."""
    casts = _casts_of_parameters(graph, {node for choice in choices for node in choice.nodes})
    stands = [(number, place) for number, choice in enumerate(choices) for place in choice.places]
    group_of: dict[int, set[int]] = {}
    user_of: dict[Value, int] = {}
    for number, (_, nodes) in enumerate(stands):
        group_of[number] = {number}
        for root in _roots(nodes[0], casts):
            other = user_of.setdefault(root, number)
            if other not in group_of[number]:
                group_of[number] |= group_of[other]
                for member in group_of[number]:
                    group_of[member] = group_of[number]
    groups = {id(group): group for group in group_of.values()}
    casts_of: dict[Value, list[Node]] = {}
    for root, cast in casts.values():
        if cast is not None:
            casts_of.setdefault(root, []).append(cast)
    order = {node: place for place, node in enumerate(graph.nodes)}
    shared = []
    for group in groups.values():
        places = tuple(stands[member] for member in sorted(group))
        users = [node for _, nodes in places for node in nodes]
        parameters = tuple(dict.fromkeys(root for node in users for root in _roots(node, casts)))
        needed = {*users, *(cast for root in parameters for cast in casts_of.get(root, ()))}
        shared.append(SharedChoices(places, tuple(sorted(needed, key=order.__getitem__)), parameters))
    return tuple(shared)


def _casts_of_parameters(graph: Graph, chosen: Iterable[Node]) -> dict[Value, tuple[Value, Node | None]]:
    """Return of each parameter and each cast of one, the parameter and the node that casts."""
    chosen = set(chosen)
    found: dict[Value, tuple[Value, Node | None]] = {value: (value, None) for value in graph.parameters.values()}
    for node in graph.nodes:
        if node.is_forward and node.operator.name == "Cast" and node not in chosen and len(node.inputs) == 1:
            before = found.get(node.inputs[0])
            if before is not None:
                found[node.outputs[0]] = (before[0], node)
    return found


def _roots(node: Node, casts: dict[Value, tuple[Value, Node | None]]) -> list[Value]:
    return [casts[value][0] for value in node.inputs if value in casts]
