"""The problem of a search: the choices of a graph, and tables whose sum is what a step costs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isqrt
from operator import attrgetter, itemgetter

import numpy as np

from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.halo import read_layouts
from mpiparallel.parallel.placement import OperatorPlacement
from mpiparallel.search.cost.memory import kept_for_gradient, live_nodes
from mpiparallel.search.cost.moves import prices_of_moves
from mpiparallel.search.cost.prices import Prices, bytes_held
from mpiparallel.search.problem.choices import Choice
from mpiparallel.search.problem.clock import Clock
from mpiparallel.search.problem.folding import Folding
from mpiparallel.search.problem.likeness import Likeness, likeness, operator_key
from mpiparallel.search.problem.placements import Placements, all_placements
from mpiparallel.search.problem.repeats import Repeats
from mpiparallel.search.problem.symbol import Symbol, combinations, combined_cells
from mpiparallel.search.problem.task import Task
from mpiparallel.search.problem.views import Array, Table, coarsened, joined_views

_MOST_CELLS = 1 << 24


@dataclass(frozen=True)
class Problem:
    """The choices of a graph; ``seconds`` and ``memory`` (bytes of a rank) are sums of tables over them.

    ``moving`` are those of ``seconds`` that price communication. ``exact`` says that the sum is the cost of what runs:
    where many operators take one value at once, moves that several of them share may be counted more than once.
    """

    choices: tuple[Choice, ...]
    computing: tuple[Table, ...]
    moving: tuple[Table, ...]
    memory: tuple[Table, ...]
    exact: bool

    @property
    def seconds(self) -> tuple[Table, ...]:
        """What a step costs."""
        return (*self.computing, *self.moving)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many options each choice has."""
        return tuple(len(choice.options) for choice in self.choices)

    def cost(self, options: Sequence[int]) -> float:
        """Return the seconds of a step by these options."""
        return float(sum(table.at(options) for table in self.seconds))

    def bytes(self, options: Sequence[int]) -> float:
        """Return the bytes that a rank holds by these options."""
        return float(sum(table.at(options) for table in self.memory))

    def strategies(self, options: Sequence[int]) -> dict[Node, tuple[tuple[int, ...], ...]]:
        """Return the strategy of each node by these options."""
        pairs = zip(self.choices, options, strict=True)
        return {node: choice.options[option] for choice, option in pairs for node in choice.nodes}


def problem_of(
    task: Task,
    choices: tuple[Choice, ...],
    clock: Clock,
    alike: Likeness | None = None,
    folding: Folding | None = None,
) -> Problem:
    """Return the problem of these choices; raise TimeOverError where there is no time to price all of it.

    ``alike`` says which nodes are, if that is known; where there is a ``folding`` it is no more exact.
    """
    repeats, folding = Repeats(), folding or Folding()
    alike = alike or likeness(task.graph, task.given, task.held)
    configuration = task.configuration
    placements = all_placements(
        task.graph, choices, task.given, task.held, configuration, repeats, clock, alike, folding
    )
    return _Pricing(task.graph, choices, placements, task.prices, repeats, clock, folding).problem()


_Node = tuple[list[Symbol[Layout]], list[Table], list[Table]]


@dataclass(frozen=True)
class _Wish:
    """A layout in which a value is wanted; wishes of one ``kind`` are met together where they are equal."""

    layout: Symbol[Layout]
    kind: object


class _Pricing:
    def __init__(
        self,
        graph: Graph,
        choices: tuple[Choice, ...],
        placements: Placements,
        prices: Prices,
        repeats: Repeats,
        clock: Clock,
        folding: Folding,
    ) -> None:
        self._graph, self._choices, self._placements, self._prices = graph, choices, placements, prices
        self._repeats, self._clock, self._folding = repeats, clock, folding
        self._exact = not folding.weights

    def problem(self) -> Problem:
        nodes = self._priced_nodes()
        weights = {node: self._folding.weight(node) for node in nodes}
        computing = [table for node, one in nodes.items() for table in self._times(weights[node], one[1])]
        wishes = self._wishes({node: reads for node, (reads, _, _) in nodes.items()})
        homes = self._first_takers(nodes)
        moving: list[Table] = []
        for value, wanted in wishes.items():
            weight = self._folding.weight(homes[value]) if value in homes else 1
            moving += self._times(weight, self._moves(value, wanted) if weight else [])
        moving += [table for node, one in nodes.items() for table in self._times(weights[node], one[2])]
        computing += self._placements.impossible
        memory = self._memory(homes)
        return Problem(self._choices, tuple(computing), tuple(moving), tuple(memory), self._exact)

    def _priced_nodes(self) -> dict[Node, _Node]:
        """Return what all nodes cost that anything needs; a folded one reads what the one reads that stands for it."""
        found: dict[Node, _Node] = {}
        for node in live_nodes(self._graph):
            first = found.get(self._folding.stands_for.get(node, node))
            found[node] = self._priced_node(node) if first is None else first
        return found

    def _first_takers(self, nodes: Iterable[Node]) -> dict[Value, Node]:
        """Return of each value the node that makes it, or that takes it first: its moves are folded with it."""
        found: dict[Value, Node] = {}
        for node in nodes:
            found.update((value, node) for value in node.outputs)
            for value in node.inputs:
                found.setdefault(value, node)
        return found

    def _times(self, weight: int, tables: Sequence[Table]) -> Sequence[Table]:
        """Return tables that count so many times."""
        if weight == 1 or not tables:
            return tables
        if not weight:
            return ()
        return [
            self._repeats.of(("times", weight), [one], lambda one=one: Table(one.views, one.values * weight))  # type: ignore[misc]
            for one in tables
        ]

    def _priced_node(self, node: Node) -> _Node:
        """Return how a node reads its inputs, and what computing it and moving its outputs at once costs."""
        placed, lying = self._placements.nodes[node], [self._placements.values[value] for value in node.outputs]

        def priced() -> _Node:
            read = placed.mapped(partial(read_layouts, node.operator))
            reads = [read.mapped(itemgetter(index)).mapped(_priced) for index in range(len(node.inputs))]
            tables = self._left(node, placed, lying)
            computing = [] if node.operator.is_view else [placed.prices(partial(self._prices.computing, node))]
            return reads, computing, tables

        return self._repeats.of(("node", _signature(node)), [placed, *lying], priced)

    def _wishes(self, read: Mapping[Node, list[Symbol[Layout]]]) -> dict[Value, list[_Wish]]:
        """Return the layouts in which each value is wanted, those that are always equal once."""
        found: dict[Value, dict[object, _Wish]] = {}

        def wish(value: Value, layout: Symbol[Layout], kind: object) -> None:
            key = layout.choices, layout.pattern, kind
            found.setdefault(value, {})[key] = _Wish(layout, kind)

        for node, layouts in read.items():
            for index, value in enumerate(node.inputs):
                if index not in node.operator.unread and (value.constant is None):
                    wish(value, layouts[index], _again(node) if value.parameter is not None else None)
        for value in self._graph.outputs:
            own = self._placements.values.get(value)
            if own is not None and value.constant is None:
                devices = own.items[0].devices
                whole = Layout.replicated(value.spec.shape, DeviceMatrix((devices.size,))).canonical
                wish(value, Symbol.always(whole), None)
        return {value: list(wishes.values()) for value, wishes in found.items()}

    def _moves(self, value: Value, wishes: Sequence[_Wish]) -> list[Table]:
        """Return what it costs to take a value to where it is wanted, each place once."""
        self._clock.check()
        placed = self._placements.values[value]
        kinds: dict[object, int] = {}

        def moves() -> list[Table]:
            own = placed.mapped(_priced)
            return [self._moved_to(value, own, together) for together in self._together(own, wishes)]

        what = "moves", value.spec.dtype, tuple(kinds.setdefault(wish.kind, len(kinds)) for wish in wishes)
        return self._repeats.of(what, [placed, *(wish.layout for wish in wishes)], moves)

    def _together(self, own: Symbol[Layout], wishes: Sequence[_Wish]) -> list[list[Symbol[Layout]]]:
        """Return the wishes in groups: those that may be equal in one, as long as its table is not too large."""
        groups: list[tuple[object, set[Layout], list[Symbol[Layout]]]] = []
        for wish in wishes:
            items = {item.canonical for item in wish.layout.items}
            apart = items - {own.items[0].canonical} if len(own.items) == 1 else items
            for kind, known, layouts in groups:
                if kind == wish.kind and known & apart:
                    if combined_cells([own, *layouts, wish.layout]) > _MOST_CELLS:
                        self._exact = False
                        continue
                    known |= items
                    layouts.append(wish.layout)
                    break
            else:
                groups.append((wish.kind, items, [wish.layout]))
        return [layouts for _, _, layouts in groups]

    def _moved_to(self, value: Value, own: Symbol[Layout], wanted: Sequence[Symbol[Layout]]) -> Table:
        known: dict[Layout, int] = {}
        numbered = [
            (layout, np.array([known.setdefault(item.canonical, len(known)) for item in layout.items]))
            for layout in wanted
        ]
        views = joined_views(symbol.table for symbol in (own, *wanted))
        total = np.zeros(tuple(view.count for view in views))
        before: list[Array] = []
        for layout, numbers in numbered:
            pair_views, places, rows = combinations([own, layout])
            prices = prices_of_moves(self._prices, own.items, layout.items, value.spec.dtype.itemsize)
            costs = prices[tuple(rows)]
            cost = Table(pair_views, costs[places]).over(views)
            places_wanted = Table(layout.table.views, numbers[layout.table.values]).over(views)
            met = np.zeros((1,) * len(views), bool)
            for other in before:
                met = met | (other == places_wanted)
            total += np.where(met, 0.0, cost)
            before.append(places_wanted)
        return coarsened(views, total)

    def _left(self, node: Node, placed: Symbol[OperatorPlacement], lying: Sequence[Symbol[Layout]]) -> list[Table]:
        """Return what it costs to move the outputs of a node at once, where its program says so."""
        tables = []
        outputs = placed.mapped(attrgetter("outputs"))
        for place, value in enumerate(node.outputs):
            made, own = outputs.mapped(itemgetter(place)).mapped(_priced), lying[place].mapped(_priced)
            if made.items != own.items:
                tables.append(self._moved_to(value, made, [own]))
        return tables

    def _memory(self, homes: Mapping[Value, Node]) -> list[Table]:
        """Return the bytes of parameters and states as they are kept, and of what the gradient reads of the network."""
        held = [
            (self._placements.stored[name], value)
            for name, value in self._graph.parameters.items()
            if name in self._placements.stored
        ]
        held += [(self._placements.values[value], value) for value in kept_for_gradient(self._graph)]
        tables: list[Table] = []
        for layout, value in held:
            weight = self._folding.weight(homes[value]) if value in homes else 1
            tables += self._times(weight, [self._bytes(layout, value)] if weight else [])
        return tables

    def _bytes(self, layout: Symbol[Layout], value: Value) -> Table:
        size = value.spec.dtype.itemsize
        return self._repeats.of(
            ("bytes", size), [layout], lambda: layout.prices(lambda one: float(bytes_held(one, size)))
        )


def _priced(layout: Layout) -> Layout:
    """Return the layout that stands for one in prices: the planner's steps are the same, and there are fewer of them.

    Where the ranks are no power of a prime, whether two device matrices have a common refinement is not seen from it.
    """
    size = layout.devices.size
    prime = next((factor for factor in range(2, isqrt(size) + 1) if size % factor == 0), size)
    while size % prime == 0 and size > 1:
        size //= prime
    return layout.canonical if size == 1 else layout


def _signature(node: Node) -> Hashable:
    """Return what is equal for nodes that compute the same from tensors of the same shapes."""
    specs = tuple(value.spec for value in (*node.inputs, *node.outputs))
    return operator_key(node.operator), specs


def _again(node: Node) -> object:
    """Return the stretch that a node is computed in once more, whose parameters are then gathered anew."""
    segment = node.notes.segment if node.notes.origin is None else node.notes.origin.notes.segment
    return segment if segment is not None and segment.recomputed and segment.regathers else None
