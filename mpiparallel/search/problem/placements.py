"""All placements of a graph at once: the compiler's policy, asked once for each combination that makes a difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from mpiparallel.compile.policy import operands_of
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.strategies import Strategies
from mpiparallel.compile.strategy_policy import StrategyPolicy
from mpiparallel.errors import StrategyError
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.parallel.placement import OperatorPlacement
from mpiparallel.search.problem.choices import Choice, SharedChoices, share_parameters
from mpiparallel.search.problem.clock import Clock
from mpiparallel.search.problem.folding import Folding
from mpiparallel.search.problem.likeness import Likeness
from mpiparallel.search.problem.repeats import Repeats
from mpiparallel.search.problem.symbol import Symbol, combined, made_symbol
from mpiparallel.search.problem.views import Table, View

Stored = tuple[Layout, Layout, Layout]
"""Where a parameter is, where operators use it, and where it is kept."""


@dataclass(frozen=True)
class _Outcome:
    """What the policy says of a node: its placement, where its outputs are, and parameters that it places first."""

    placement: OperatorPlacement
    outputs: tuple[Layout, ...]
    stored: tuple[Stored, ...] = ()


_Placed = tuple[Symbol[OperatorPlacement], list[Symbol[Layout]]]


@dataclass
class Placements:
    """Where each node and value of a graph is, as symbols over the choices; ``impossible`` costs what cannot be."""

    nodes: dict[Node, Symbol[OperatorPlacement]] = field(default_factory=dict)
    values: dict[Value, Symbol[Layout]] = field(default_factory=dict)
    used: dict[str, Symbol[Layout]] = field(default_factory=dict)
    stored: dict[str, Symbol[Layout]] = field(default_factory=dict)
    impossible: list[Table] = field(default_factory=list)


def all_placements(
    graph: Graph,
    choices: Sequence[Choice],
    given: Strategies,
    held: Mapping[str, Layout],
    configuration: ParallelConfiguration,
    repeats: Repeats,
    clock: Clock,
    likeness: Likeness,
    folding: Folding,
) -> Placements:
    """Return all placements of a graph by the options of its choices.

    ``repeats`` has what is alike worked out once, and what is folded is not worked out at all. ``given`` are the
    strategies of the program, ``held`` the layouts in which ranks hold parameters, by name. Raises TimeOverError when
    the clock says so.
    """
    return _Placer(graph, choices, given, held, configuration, repeats, clock, likeness, folding).run()


class _Placer:
    def __init__(
        self,
        graph: Graph,
        choices: Sequence[Choice],
        given: Strategies,
        held: Mapping[str, Layout],
        configuration: ParallelConfiguration,
        repeats: Repeats,
        clock: Clock,
        likeness: Likeness,
        folding: Folding,
    ) -> None:
        self._repeats, self._clock = repeats, clock
        self._likeness, self._folding = likeness, folding
        self._landed: set[Value] = set()
        self._graph, self._choices, self._given = graph, choices, given
        self._held, self._configuration = held, configuration
        self._devices = DeviceMatrix((configuration.device_num,))
        self._found = Placements()
        first = {node: choice.options[0] for choice in choices for node in choice.nodes}
        self._sharded = ShardedGraph(graph, self._devices)
        self._policy = StrategyPolicy(self._sharded, given.with_inputs(first), held, configuration)

    def run(self) -> Placements:
        groups = share_parameters(self._graph, self._choices)
        self._begin({value for group in groups for value in group.parameters})
        for group in groups:
            self._clock.check()
            if not all([self._unfold(node) for node in group.chosen]):
                self._place_together(group)
        for node in self._graph.nodes:
            if node not in self._found.nodes:
                self._clock.check()
                if not self._unfold(node):
                    self._place(node)
        return self._found

    def _unfold(self, node: Node) -> bool:
        """Place a folded node as the one that stands for it; return whether that can be."""
        first = self._folding.stands_for.get(node)
        if first is None or first not in self._found.nodes:
            return False
        landed = any(value in self._graph.gradients or value in self._landed for value in node.inputs)
        if landed and not node.operator.updates:
            # The policy remembers what comes after a gradient.
            return False
        known = self._found.values
        new = [pair for pair in zip(node.inputs, first.inputs, strict=True) if pair[0].parameter is not None]
        new = [(value, other) for value, other in new if value not in known]
        if any(other not in known for _, other in new):
            return False
        for value, other in new:
            known[value] = known[other]
            self._found.used[value.name] = self._found.used[other.name]
            self._found.stored[value.name] = self._found.stored[other.name]
        if landed:
            self._landed.update(node.outputs)
        self._found.nodes[node] = self._found.nodes[first]
        outputs = zip(node.outputs, first.outputs, strict=True)
        known.update((value, known[other]) for value, other in outputs)
        return True

    def _begin(self, shared: set[Value]) -> None:
        """Lay out the inputs, and the parameters that no choice lays out."""
        users = Graph(
            inputs=self._graph.inputs,
            nodes=[node for node in self._graph.nodes if not shared.intersection(node.inputs)],
            parameters={name: value for name, value in self._graph.parameters.items() if value not in shared},
        )
        begun = ShardedGraph(users, self._devices)
        chosen = {node: choice.options[0] for choice in self._choices for node in choice.nodes}
        StrategyPolicy(begun, self._given.with_inputs(chosen), self._held, self._configuration).begin()
        self._found.values.update((value, Symbol.always(layout)) for value, layout in begun.layouts.items())
        self._found.used.update((name, Symbol.always(layout)) for name, layout in begun.used.items())
        self._found.stored.update((name, Symbol.always(layout)) for name, layout in begun.stored.items())

    def _place_together(self, group: SharedChoices) -> None:
        """Place operators that share parameters, under all combinations of their options."""
        used = tuple(
            tuple(node.inputs.index(one) if one in node.inputs else -1 for node in group.nodes)
            for one in group.parameters
        )
        alike = tuple(self._likeness.alone[node] for node in group.nodes)
        options = tuple((number, id(self._choices[number].options)) for number, _ in group.places)
        views = [self._repeats.whole_view(number, len(self._choices[number].options)) for number in group.choices]
        symbol, impossible = self._repeats.of(
            ("together", alike, used, _renumbered(options)),
            [Table((view,), view.classes) for view in views],
            lambda: self._placed_together(group, views),
        )
        if impossible is not None:
            self._found.impossible.append(impossible)
        for node, of_node in zip(group.chosen, symbol[0], strict=True):
            self._keep(node, of_node)
        for value, of_parameter in zip(group.parameters, symbol[1], strict=True):
            self._keep_parameter(value, of_parameter)

    def _placed_together(
        self, group: SharedChoices, views: Sequence[View]
    ) -> tuple[tuple[list[_Placed], list[Symbol[Stored]]], Table | None]:
        """Return where operators that share parameters are, and these, and what cannot be."""
        choices = [self._choices[number] for number in group.choices]
        made = [self._outcomes_of(group, options) for options in product(*(choice.options for choice in choices))]
        possible = next((one for one in made if one is not None), None)
        if possible is None:
            # The policy refuses, and says why.
            possible = self._outcomes_of(group, [choice.options[0] for choice in choices], refuses=True)
        numbers = np.arange(len(made)).reshape([view.count for view in views])
        impossible = None
        if any(one is None for one in made):
            costs = np.array([0.0 if one is not None else np.inf for one in made]).reshape(numbers.shape)
            impossible = Table(tuple(views), costs)
        symbol: Symbol[Any] = made_symbol(views, numbers, [one if one is not None else possible for one in made])
        outcomes, stored = symbol.mapped(itemgetter(0)), symbol.mapped(itemgetter(1))
        placed = [_parts(outcomes.mapped(itemgetter(place)), node) for place, node in enumerate(group.chosen)]
        return (placed, [stored.mapped(itemgetter(place)) for place in range(len(group.parameters))]), impossible

    def _outcomes_of(
        self, group: SharedChoices, options: Sequence[Any], refuses: bool = False
    ) -> tuple[tuple[_Outcome, ...], tuple[Stored, ...]] | None:
        """Return the placements of operators that share parameters, and where these are; None where it cannot be."""
        chosen = dict(zip(group.choices, options, strict=True))
        strategies = {node: chosen[number] for number, nodes in group.places for node in nodes}
        graph = Graph(nodes=list(group.nodes), parameters={value.name: value for value in group.parameters})
        sharded = ShardedGraph(graph, self._devices)
        given = Strategies(strategies, self._given.outputs)
        policy = StrategyPolicy(sharded, given, self._held, self._configuration)
        outcomes = []
        try:
            policy.begin()
            for node in strategies:
                placement = policy.place(node)
                outcomes.append(_Outcome(placement, policy.left_in(node, placement)))
        except StrategyError:
            if refuses:
                raise
            return None
        stored = tuple(
            (sharded.layouts[value], sharded.used[value.name], sharded.stored[value.name]) for value in group.parameters
        )
        return tuple(outcomes), stored

    def _place(self, node: Node) -> None:
        """Place a node that has no choice, wherever what decides on it may be."""
        reads = self._reads(node)
        new = [value for value in node.inputs if value.parameter is not None and value not in self._found.values]
        new = list(dict.fromkeys(new))
        asked = False

        def outcome(*items: Any) -> _Outcome:
            nonlocal asked
            asked = True
            self._set(node, reads, items)
            placement = self._policy.place(node)
            layouts, used, stored = self._sharded.layouts, self._sharded.used, self._sharded.stored
            told = tuple((layouts[value], used[value.name], stored[value.name]) for value in new)
            return _Outcome(placement, self._policy.left_in(node, placement), told)

        def placed() -> tuple[_Placed, list[Symbol[Stored]]]:
            symbol = combined([symbol for _, _, symbol in reads], outcome)
            stored = symbol.mapped(attrgetter("stored"))
            return _parts(symbol, node), [stored.mapped(itemgetter(place)) for place in range(len(new))]

        landed = tuple(value in self._graph.gradients or value in self._landed for value in node.inputs)
        what = "place", self._likeness.around[node], tuple(name for name, _, _ in reads), len(new), landed
        symbols, stored = self._repeats.of(what, [symbol for _, _, symbol in reads], placed)
        if any(landed):
            self._landed.update(node.outputs)
            if not asked:
                # The policy remembers what comes after a gradient.
                outcome(*(symbol.items[0] for _, _, symbol in reads))
        self._keep(node, symbols)
        for value, symbol in zip(new, stored, strict=True):
            self._keep_parameter(value, symbol)

    def _set(self, node: Node, reads: Sequence[tuple[str, Any, Any]], items: Sequence[Any]) -> None:
        """Let the policy see what a node reads as these items."""
        sharded = self._sharded
        for part in (sharded.layouts, sharded.used, sharded.stored, sharded.placements):
            part.clear()
        for value in node.inputs:
            known = self._found.values.get(value)
            if known is not None:
                sharded.layouts[value] = known.items[0]
        parts: dict[str, dict[Any, Any]] = {
            "layout": sharded.layouts,
            "used": sharded.used,
            "origin": sharded.placements,
        }
        for (name, key, _), item in zip(reads, items, strict=True):
            parts[name][key] = item

    def _reads(self, node: Node) -> list[tuple[str, Any, Symbol[Any]]]:
        """Return what may decide on the placement of a node: the part of what is known, which of it, and its symbol."""
        operator, origin = node.operator, node.notes.origin
        found: dict[tuple[str, Any], Symbol[Any]] = {}

        def reads_value(value: Value) -> None:
            if value in self._found.values:
                found["layout", value] = self._found.values[value]
            if value.name in self._found.used and value.parameter is not None:
                found["used", value.name] = self._found.used[value.name]

        def reads_taker(value: Value) -> None:
            """Read what tells the layout in which the next node takes a part of a gradient."""
            parameter, taker = self._graph.gradients.get(value), self._policy.takers.get(value)
            if parameter is not None:
                reads_value(parameter)
            elif taker is None or taker.operator.keeps_layouts:
                return
            elif taker.notes.like is not None:
                reads_value(taker.notes.like)
            elif taker.notes.origin is not None:
                found["origin", taker.notes.origin] = self._found.nodes[taker.notes.origin]
                if value not in self._graph.cotangents.get(taker.notes.origin, ()):
                    for one in taker.inputs:
                        if one.node is not None or self._is_own(one, taker.notes.origin):
                            reads_value(one)
                    for one in taker.outputs:
                        reads_taker(one)

        if operator.updates and not operator.keeps_partial:
            reads_value(node.inputs[operator.updates[0]])
            if operator.laid_out_as is not None:
                reads_value(node.inputs[operator.laid_out_as])
        elif origin is not None and node.notes.like is None:
            found["origin", origin] = self._found.nodes[origin]
            for value in node.inputs:
                if operator.linear or self._is_own(value, origin):
                    reads_value(value)
            if operands_of(node).equation.own_to_outputs:
                for value in node.outputs:
                    reads_taker(value)
        else:
            for value in node.inputs:
                if node.notes.like is not None and value in self._found.values:
                    found["layout", value] = self._as_term(value)
                else:
                    reads_value(value)
                landed = self._graph.gradients.get(value)
                if landed is not None:
                    reads_value(landed)
            if node.notes.like is not None:
                reads_value(node.notes.like)
        return [(part, key, symbol) for (part, key), symbol in found.items()]

    def _as_term(self, value: Value) -> Symbol[Layout]:
        """Return where a value is that is added to others: it matters only where it is a term of a sum itself."""
        symbol = self._found.values[value]

        def as_term() -> Symbol[Layout]:
            whole = next((one for one in symbol.items if not _is_term(one)), None)
            return symbol.mapped(lambda one: one if whole is None or _is_term(one) else whole)

        return self._repeats.of("term", [symbol], as_term)

    def _is_own(self, value: Value, origin: Node) -> bool:
        """Return whether a gradient of ``origin`` takes a value from where it is, not from where ``origin`` had it."""
        near = {*origin.inputs, *origin.outputs, *self._graph.cotangents.get(origin, ())}
        return value not in near and value.constant is None

    def _keep(self, node: Node, placed: _Placed) -> None:
        self._found.nodes[node] = placed[0]
        self._found.values.update(zip(node.outputs, placed[1], strict=True))

    def _keep_parameter(self, value: Value, symbol: Symbol[Stored]) -> None:
        layouts, used, stored = self._repeats.of(
            "stored", [symbol], lambda: [symbol.mapped(itemgetter(place)) for place in range(3)]
        )
        self._found.values[value] = layouts
        self._found.used[value.name] = used
        self._found.stored[value.name] = stored


def _renumbered(options: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return the options of choices, these numbered as they are met first."""
    known: dict[int, int] = {}
    return tuple((known.setdefault(number, len(known)), one) for number, one in options)


def _is_term(layout: Layout) -> bool:
    return bool(layout.partial) and layout.reduction == "sum"


def _parts(symbol: Symbol[_Outcome], node: Node) -> _Placed:
    """Return the placement of a node, and where each of its outputs is."""
    outputs = symbol.mapped(attrgetter("outputs"))
    of_outputs = [outputs.mapped(itemgetter(place)) for place in range(len(node.outputs))]
    return symbol.mapped(attrgetter("placement")), of_outputs
