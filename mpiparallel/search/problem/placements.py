"""All placements of a graph at once: the compiler's policy, asked once for each combination that makes a difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import product
from operator import attrgetter, itemgetter
from typing import Any, Final

import numpy as np

from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.strategies import Strategies
from mpiparallel.compile.strategy_policy import StrategyPolicy
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import StrategyError
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.parallel.operator_placement import OperatorPlacement
from mpiparallel.search.problem.choices import Choice, SharedChoices
from mpiparallel.search.problem.clock import Clock
from mpiparallel.search.problem.deciding import Deciding, Read
from mpiparallel.search.problem.outline import Outline
from mpiparallel.search.problem.repeats import Repeats
from mpiparallel.search.problem.symbol import Symbol, combined, combined_cells, made_symbol
from mpiparallel.search.problem.views import Table, View

_OF_SUMS: Final = 20
"""By what part the tables of sums are smaller than others: what they bind together is decided for all of it at once."""

Stored = tuple[Layout, Layout, Layout]
"""Where a parameter is, where operators use it, and where it is kept."""


@dataclass(frozen=True)
class _Outcome:
    """What the policy says of a node: its placement, where its outputs are, and parameters that it places first."""

    placement: OperatorPlacement
    outputs: tuple[Layout, ...]
    stored: tuple[Stored, ...] = ()


_PlacedNode = tuple[Symbol[OperatorPlacement], list[Symbol[Layout]]]


@dataclass
class Placements:
    """Where each node and value of a graph is, as symbols over the choices; ``impossible`` costs what cannot be.

    The sums of gradients that are ``loose`` depend on too many choices: they stand where terms that differ would be
    added up. ``apart`` says that nothing else depends on where these sums are.
    """

    nodes: dict[Node, Symbol[OperatorPlacement]] = field(default_factory=dict)
    values: dict[Value, Symbol[Layout]] = field(default_factory=dict)
    used: dict[str, Symbol[Layout]] = field(default_factory=dict)
    stored: dict[str, Symbol[Layout]] = field(default_factory=dict)
    impossible: list[Table] = field(default_factory=list)
    loose: dict[Node, None] = field(default_factory=dict)
    apart: bool = True


def all_placements(
    graph: Graph,
    choices: Sequence[Choice],
    given: Strategies,
    held: Mapping[str, Layout],
    configuration: ParallelConfiguration,
    repeats: Repeats,
    clock: Clock,
    outline: Outline,
    most_cells: int,
) -> Placements:
    """Return all placements of a graph by the options of its choices.

    ``repeats`` has what is alike worked out once, and what is folded is not worked out at all. ``given`` are the
    strategies of the program, ``held`` the layouts in which ranks hold parameters, by name. Where a sum of gradients
    has more than ``most_cells`` combinations it is loose. Raises TimeOverError when the clock says so.
    """
    return _Placer(graph, choices, given, held, configuration, repeats, clock, outline, most_cells).run()


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
        outline: Outline,
        most_cells: int,
    ) -> None:
        self._repeats, self._clock, self._most_cells = repeats, clock, most_cells
        self._likeness, self._folding, self._groups = outline.alike, outline.folding, outline.groups
        self._landed, self._order, self._now = outline.landed, outline.order, 0
        self._begun = outline.begun
        self._graph, self._choices, self._given = graph, choices, given
        self._held, self._configuration = held, configuration
        self._devices = DeviceMatrix((configuration.device_num,))
        self._found = found = Placements()
        first = {node: choice.options[0] for choice in choices for node in choice.nodes}
        self._sharded = ShardedGraph(graph, self._devices)
        self._policy = StrategyPolicy(self._sharded, given.with_inputs(first), held, configuration)
        # It would look for them anew in each round of a search.
        self._policy.takers = outline.takers
        self._deciding = Deciding(
            graph,
            found.nodes,
            found.values,
            found.used,
            outline.takers,
            outline.homes,
            self._reach,
            repeats,
        )

    def run(self) -> Placements:
        self._begin()
        for group in self._groups:
            self._clock.check()
            self._place_together(group)
        for node, place in self._order.items():
            if node not in self._found.nodes and node not in self._folding.stands_for:
                self._now = place
                self._clock.check()
                self._place(node)
        self._now = len(self._order)
        for value in self._graph.outputs:
            self._deciding.is_known(value)
        return self._found

    def _reach(self, node: Node) -> None:
        """Place a folded node if it comes before the one that is being placed."""
        if node in self._found.nodes or node not in self._folding.stands_for or self._order[node] >= self._now:
            return
        if not self._unfold(node):
            now, self._now = self._now, self._order[node]
            self._place(node)
            self._now = now

    def _unfold(self, node: Node) -> bool:
        """Place a folded node as the one that stands for it; return whether that can be."""
        first, known = self._folding.stands_for[node], self._found.values
        landed = any(value in self._landed for value in node.inputs)
        if first not in self._found.nodes or (landed and not node.operator.updates):
            # The policy remembers what comes after a gradient.
            return False
        new = [pair for pair in zip(node.inputs, first.inputs, strict=True) if pair[0].parameter is not None]
        new = [(value, other) for value, other in new if value not in known]
        if any(other not in known for _, other in new):
            return False
        for value, other in new:
            known[value] = known[other]
            self._found.used[value.name] = self._found.used[other.name]
            self._found.stored[value.name] = self._found.stored[other.name]
        self._found.nodes[node] = self._found.nodes[first]
        outputs = zip(node.outputs, first.outputs, strict=True)
        known.update((value, known[other]) for value, other in outputs)
        return True

    def _begin(self) -> None:
        """Lay out the inputs, and the parameters that no choice lays out."""
        begun = self._begun
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
    ) -> tuple[tuple[list[_PlacedNode], list[Symbol[Stored]]], Table | None]:
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
        reads = self._deciding.on(node)
        if node.notes.like is not None:
            reads = self._loosened(node, reads)
        elif any(part == "layout" and key.node in self._found.loose for part, key, _ in reads):
            self._found.apart &= self._is_cotangent(node)
        known = [self._deciding.is_known(value) for value in node.inputs]
        pairs = zip(node.inputs, known, strict=True)
        new = list(dict.fromkeys(value for value, is_known in pairs if value.parameter is not None and not is_known))
        asked = False

        def outcome(*items: Any) -> _Outcome:
            nonlocal asked
            asked = True
            self._set(node, reads, items)
            placement = self._policy.place(node)
            layouts, used, stored = self._sharded.layouts, self._sharded.used, self._sharded.stored
            told = tuple((layouts[value], used[value.name], stored[value.name]) for value in new)
            return _Outcome(placement, self._policy.left_in(node, placement), told)

        def placed() -> tuple[_PlacedNode, list[Symbol[Stored]]]:
            symbol = combined([symbol for _, _, symbol in reads], outcome)
            stored = symbol.mapped(attrgetter("stored"))
            return _parts(symbol, node), [stored.mapped(itemgetter(place)) for place in range(len(new))]

        landed = tuple(value in self._landed for value in node.inputs)
        what = "place", self._likeness.around[node], tuple(name for name, _, _ in reads), len(new), landed
        symbols, stored = self._repeats.of(what, [symbol for _, _, symbol in reads], placed)
        if any(landed) and not asked:
            # The policy remembers what comes after a gradient.
            outcome(*(symbol.items[0] for _, _, symbol in reads))
        self._keep(node, symbols)
        for value, symbol in zip(new, stored, strict=True):
            self._keep_parameter(value, symbol)

    def _set(self, node: Node, reads: Sequence[Read], items: Sequence[Any]) -> None:
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

    def _loosened(self, node: Node, reads: list[Read]) -> list[Read]:
        """Return what may decide on a sum of gradients: where it is loose, not whether its terms could be kept."""
        terms = {value for value in node.inputs if value in self._found.values}
        inner = any(value.node in self._found.loose for value in terms)
        if not inner and combined_cells([symbol for _, _, symbol in reads]) <= self._most_cells // _OF_SUMS:
            return reads
        self._found.loose[node] = None
        return [
            (part, key, Symbol.always(symbol.items[0].reduced()) if part == "layout" and key in terms else symbol)
            for part, key, symbol in reads
        ]

    def _is_cotangent(self, node: Node) -> bool:
        """Return whether a part of a gradient takes all sums in the layouts of its origin, wherever they are."""
        origin = node.notes.origin
        if origin is None or any(value.parameter is not None for value in origin.inputs[:1]):
            return False
        cotangents = self._graph.cotangents.get(origin, ())
        return all(value in cotangents for value in node.inputs if value.node in self._found.loose)

    def _keep(self, node: Node, placed: _PlacedNode) -> None:
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


def _parts(symbol: Symbol[_Outcome], node: Node) -> _PlacedNode:
    """Return the placement of a node, and where each of its outputs is."""
    outputs = symbol.mapped(attrgetter("outputs"))
    of_outputs = [outputs.mapped(itemgetter(place)) for place in range(len(node.outputs))]
    return symbol.mapped(attrgetter("placement")), of_outputs
