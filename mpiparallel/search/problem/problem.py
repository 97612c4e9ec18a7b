"""The problem of a search: the choices of a graph, and tables whose sum is what a step costs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import isqrt
from operator import attrgetter, itemgetter
from typing import Final

from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.halo import read_layouts
from mpiparallel.parallel.operator_placement import OperatorPlacement
from mpiparallel.search.cost.prices import Prices, bytes_held
from mpiparallel.search.problem.choices import Choice
from mpiparallel.search.problem.clock import Clock
from mpiparallel.search.problem.loose_sums import LooseSum, loose_sums, stays, term_at_least
from mpiparallel.search.problem.outline import Outline, outline_of
from mpiparallel.search.problem.placements import Placements, all_placements
from mpiparallel.search.problem.repeats import Repeats
from mpiparallel.search.problem.symbol import Symbol
from mpiparallel.search.problem.task import Task
from mpiparallel.search.problem.value_moves import Demand, ValueMoves, demands_of
from mpiparallel.search.problem.views import Table

NARROW: Final = 1 << 21
WIDE: Final = 1 << 24
"""The cells of the largest table for what several choices decide together, as it is quick and as it is possible."""


@dataclass(frozen=True)
class Problem:
    """The choices of a graph; ``seconds`` and ``memory`` (bytes of a rank) are sums of tables over them.

    ``moving`` are those of ``seconds`` that price communication. ``exact`` says that the sum is the cost of what runs.
    Else too many choices decide some of that cost together. Then each of these choices pays the least that its part can
    cost. The sum ``bounds`` what runs from below, unless other layouts depend on it.
    """

    choices: tuple[Choice, ...]
    computing: tuple[Table, ...]
    moving: tuple[Table, ...]
    memory: tuple[Table, ...]
    exact: bool
    bounds: bool = True

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
    outline: Outline | None = None,
    most_cells: int = NARROW,
) -> Problem:
    """Return the problem of these choices; raise TimeOverError where there is no time to price all of it.

    ``outline`` is that of the graph, if it is known. What has more than ``most_cells`` combinations is counted apart
    for each choice.
    """
    return pricing_of(task, choices, clock, outline, most_cells).problem()


def pricing_of(
    task: Task,
    choices: tuple[Choice, ...],
    clock: Clock,
    outline: Outline | None = None,
    most_cells: int = NARROW,
) -> Pricing:
    """Return what makes the problem of these choices, as ``problem_of`` does, and makes it anew for other plans."""
    repeats, outline = Repeats(), outline or outline_of(task, choices)
    configuration = task.configuration
    placements = all_placements(
        task.graph, choices, task.given, task.held, configuration, repeats, clock, outline, most_cells
    )
    return Pricing(task.graph, choices, placements, task.prices, repeats, clock, outline, most_cells)


_PricedNode = tuple[list[Symbol[Layout]], list[Table], list[Table]]


class Pricing:
    """All placements of a graph, and what they cost."""

    def __init__(
        self,
        graph: Graph,
        choices: tuple[Choice, ...],
        placements: Placements,
        prices: Prices,
        repeats: Repeats,
        clock: Clock,
        outline: Outline,
        most_cells: int,
    ) -> None:
        self._graph, self._choices, self._placements, self._prices = graph, choices, placements, prices
        self._repeats, self._clock, self._outline, self._folding = repeats, clock, outline, outline.folding
        self._most_cells = most_cells
        self._value_moves = ValueMoves(prices, repeats, most_cells)

    def problem(self, plans: Sequence[Sequence[int]] = ()) -> Problem:
        """Return the problem; what is counted apart comes near to what it costs by the options of these ``plans``."""
        self._value_moves = ValueMoves(self._prices, self._repeats, self._most_cells, plans)
        nodes = self._priced_nodes()
        weights = {node: self._folding.weight(node) for node in nodes}
        computing = [table for node, one in nodes.items() for table in self._times(weights[node], one[1])]
        loose, values = self._placements.loose, self._placements.values
        demands = demands_of(self._graph, {node: one[0] for node, one in nodes.items() if node not in loose}, values)
        moving: list[Table] = []
        for one in loose_sums([node for node in nodes if node in loose], demands):
            moving += self._times(weights[one.last], self._at_least(one, demands))
        for value, wanted in demands.items():
            weight = self._outline.weight(value)
            moving += self._times(weight, self._moves(value, wanted) if weight else [])
        moving += [table for node, one in nodes.items() for table in self._times(weights[node], one[2])]
        computing += self._placements.impossible
        memory = self._memory()
        exact = not self._folding.weights and not loose and self._value_moves.exact
        tables = tuple(computing), tuple(moving), tuple(memory)
        return Problem(self._choices, *tables, exact, bounds=exact or self._placements.apart)

    def _moves(self, value: Value, demands: Sequence[Demand]) -> list[Table]:
        self._clock.check()
        return self._value_moves.to_demands(value, self._priced_layout(value), demands)

    def _priced_layout(self, value: Value) -> Symbol[Layout]:
        """Return where a value is, as layouts that stand for it in prices."""
        placed = self._placements.values[value]
        return self._repeats.of("priced", [placed], lambda: placed.mapped(_priced))

    def _priced_nodes(self) -> dict[Node, _PricedNode]:
        """Return what all nodes cost that anything needs; a folded one reads what the one reads that stands for it."""
        found: dict[Node, _PricedNode] = {}
        for node in self._outline.nodes:
            first = found.get(self._folding.stands_for.get(node, node))
            found[node] = self._priced_node(node) if first is None else first
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

    def _priced_node(self, node: Node) -> _PricedNode:
        """Return how a node reads its inputs, and what computing it and moving its outputs at once costs."""
        placed, lying = self._placements.nodes[node], [self._placements.values[value] for value in node.outputs]

        def priced() -> _PricedNode:
            read = placed.mapped(partial(read_layouts, node.operator))
            reads = [read.mapped(itemgetter(index)).mapped(_priced) for index in range(len(node.inputs))]
            tables = self._left(node, placed, lying)
            counts_alone = not node.operator.is_view and node not in self._placements.loose
            computing = [] if not counts_alone else [placed.prices(partial(self._prices.computing, node))]
            return reads, computing, tables

        what = "node", self._prices.kind(node), node in self._placements.loose
        return self._repeats.of(what, [placed, *lying], priced)

    def _at_least(self, one: LooseSum, demands: dict[Value, list[Demand]]) -> list[Table]:
        """Return what the terms of a loose sum cost, each at least.

        Where the total is wanted elsewhere than where terms that differ are added, no more is said of its moves.
        """
        at = self._priced_layout(one.total)
        is_closed = stays(at, demands.get(one.total, ()))
        if not is_closed:
            del demands[one.total]
        found = []
        for place, value in enumerate(one.terms):
            # What others take too may be moved for all of them at once.
            if value not in demands and value.node not in self._placements.loose:
                own = self._priced_layout(value)
                what = "at least", self._prices.kind(one.last), place, len(one.terms), is_closed
                make = partial(term_at_least, one, place, own, at, is_closed, self._prices)
                found.append(self._repeats.of(what, [own, at], make))
        return found

    def _left(self, node: Node, placed: Symbol[OperatorPlacement], lying: Sequence[Symbol[Layout]]) -> list[Table]:
        """Return what it costs to move the outputs of a node at once, where its program says so."""
        tables = []
        outputs = placed.mapped(attrgetter("outputs"))
        for place, value in enumerate(node.outputs):
            made, own = outputs.mapped(itemgetter(place)).mapped(_priced), lying[place].mapped(_priced)
            if made.items != own.items:
                tables.append(self._value_moves.to_layouts(value, made, [own]))
        return tables

    def _memory(self) -> list[Table]:
        """Return the bytes of parameters and states as they are kept, and of what the gradient reads of the network."""
        held = [
            (self._placements.stored[name], value)
            for name, value in self._graph.parameters.items()
            if name in self._placements.stored
        ]
        held += [(self._placements.values[value], value) for value in self._outline.kept]
        tables: list[Table] = []
        for layout, value in held:
            weight = self._outline.weight(value)
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
