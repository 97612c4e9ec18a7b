"""What it costs to take each value from where it is to where it is wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.search.cost.moves import prices_of_pairs
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.problem.repeats import Repeats
from mpiparallel.search.problem.symbol import Symbol, combinations, combined_cells
from mpiparallel.search.problem.views import Array, Table, coarsened, joined_views


@dataclass(frozen=True)
class Demand:
    """A layout in which a value is wanted; demands of one ``kind`` are met together where they are equal."""

    layout: Symbol[Layout]
    kind: object


def demands_of(
    graph: Graph, read: Mapping[Node, Sequence[Symbol[Layout]]], places: Mapping[Value, Symbol[Layout]]
) -> dict[Value, list[Demand]]:
    """Return the layouts in which each value is wanted, those that are always equal once.

    ``read`` has how nodes read their inputs, ``places`` where values are.
    """
    found: dict[Value, dict[object, Demand]] = {}

    def demand(value: Value, layout: Symbol[Layout], kind: object) -> None:
        key = layout.choices, layout.pattern, kind
        found.setdefault(value, {})[key] = Demand(layout, kind)

    for node, layouts in read.items():
        for index, value in enumerate(node.inputs):
            if index not in node.operator.unread and (value.constant is None):
                demand(value, layouts[index], _again(node) if value.parameter is not None else None)
    for value in graph.outputs:
        own = places.get(value)
        if own is not None and value.constant is None:
            devices = own.items[0].devices
            whole = Layout.replicated(value.spec.shape, DeviceMatrix((devices.size,))).canonical
            demand(value, Symbol.always(whole), None)
    return {value: list(demands.values()) for value, demands in found.items()}


def _again(node: Node) -> object:
    """Return the stretch that a node is computed in once more, whose parameters are then gathered anew."""
    segment = node.notes.segment if node.notes.origin is None else node.notes.origin.notes.segment
    return segment if segment is not None and segment.recomputed and segment.regathers else None


class ValueMoves:
    """Prices moves of values as tables.

    A table for what several nodes want may have more than ``most_cells``. Then each node pays a part of each move by
    itself. The parts make at most the whole, so their sum is at most what the moves cost; and ``exact`` is false. A
    move to a layout is paid by the nodes that want it there by the ``plans``, on average over these, else by all alike.
    """

    def __init__(self, prices: Prices, repeats: Repeats, most_cells: int, plans: Sequence[Sequence[int]] = ()) -> None:
        self._prices, self._repeats, self._most_cells, self._plans = prices, repeats, most_cells, plans
        self.exact = True

    def to_demands(self, value: Value, own: Symbol[Layout], demands: Sequence[Demand]) -> list[Table]:
        """Return what it costs to take a value from its own layout to where it is wanted, each place once."""
        kinds: dict[object, int] = {}
        numbers = tuple(kinds.setdefault(demand.kind, len(kinds)) for demand in demands)
        layouts = [demand.layout for demand in demands]
        groups = [[0]]
        if len(demands) > 1:
            groups = self._repeats.of(("together", numbers), [own, *layouts], lambda: _together(own, demands))
        tables: list[Table] = []
        for members in groups:
            wanted = [layouts[number] for number in members]
            if len(wanted) > 1 and combined_cells([own, *wanted]) > self._most_cells:
                self.exact = False
                tables += self._in_parts(value, own, wanted)
            else:
                make = partial(self.to_layouts, value, own, wanted)
                tables.append(self._repeats.of(("moves", value.spec.dtype), [own, *wanted], make))
        return tables

    def _in_parts(self, value: Value, own: Symbol[Layout], wanted: Sequence[Symbol[Layout]]) -> list[Table]:
        states = tuple(tuple(int(layout.table.at(plan)) for layout in wanted) for plan in self._plans)

        def parts() -> list[Table]:
            return [
                self._move(value, own, layout, part)
                for layout, part in zip(wanted, _shares(wanted, states), strict=True)
            ]

        return self._repeats.of(("parts", value.spec.dtype, states), [own, *wanted], parts)

    def _move(self, value: Value, own: Symbol[Layout], layout: Symbol[Layout], part: Array) -> Table:
        """Return a part of what a move costs, for each layout of the target another."""
        views, places, (held, taken) = combinations([own, layout])
        costs = self._prices_between(value, own, layout, (held, taken)) * part[taken]
        return coarsened(views, costs[places])

    def _prices_between(
        self, value: Value, own: Symbol[Layout], layout: Symbol[Layout], pairs: tuple[Array, Array]
    ) -> Array:
        """Return the seconds from a layout of a value to one of another symbol, for each of these pairs."""
        return prices_of_pairs(self._prices, own.items, layout.items, pairs, value.spec.dtype.itemsize)

    def to_layouts(self, value: Value, own: Symbol[Layout], wanted: Sequence[Symbol[Layout]]) -> Table:
        """Return what it costs to take a value to all layouts in which it is wanted; equal ones count once."""
        known: dict[Layout, int] = {}
        numbered = [
            (layout, np.array([known.setdefault(item.canonical, len(known)) for item in layout.items]))
            for layout in wanted
        ]
        views = joined_views(symbol.table for symbol in (own, *wanted))
        total = np.zeros(tuple(view.count for view in views))
        before: list[Array] = []
        for layout, numbers in numbered:
            pair_views, places, (held, taken) = combinations([own, layout])
            costs = self._prices_between(value, own, layout, (held, taken))
            cost = Table(pair_views, costs[places]).over(views)
            places_wanted = Table(layout.table.views, numbers[layout.table.values]).over(views)
            met = np.zeros((1,) * len(views), bool)
            for other in before:
                met = met | (other == places_wanted)
            total += np.where(met, 0.0, cost)
            before.append(places_wanted)
        return coarsened(views, total)


def _shares(wanted: Sequence[Symbol[Layout]], states: Iterable[Sequence[int]]) -> list[Array]:
    """Return which part each pays of a move to each of its layouts; ``states`` say which one each wants by a plan."""
    names = [[item.canonical for item in layout.items] for layout in wanted]
    paid: dict[Layout, Array] = {}
    for state in states:
        here: dict[Layout, Array] = {}
        for place, (of, number) in enumerate(zip(names, state, strict=True)):
            here.setdefault(of[number], np.zeros(len(wanted)))[place] = 1
        for layout, payers in here.items():
            paid[layout] = paid.get(layout, 0) + payers / payers.sum()
    alike = np.full(len(wanted), 1 / len(wanted))
    shares = {layout: of / of.sum() for layout, of in paid.items()}
    return [np.array([shares.get(one, alike)[place] for one in of]) for place, of in enumerate(names)]


def _together(own: Symbol[Layout], demands: Iterable[Demand]) -> list[list[int]]:
    """Return the demands in groups, by their numbers: those that may be equal in one."""
    groups: list[tuple[object, set[Layout], list[int]]] = []
    for number, demand in enumerate(demands):
        items = {item.canonical for item in demand.layout.items}
        apart = items - {own.items[0].canonical} if len(own.items) == 1 else items
        for kind, known, numbers in groups:
            if kind == demand.kind and known & apart:
                known |= items
                numbers.append(number)
                break
        else:
            groups.append((demand.kind, items, [number]))
    return [numbers for _, _, numbers in groups]
