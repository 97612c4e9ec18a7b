"""Something whose value depends on choices: a layout or a placement in all placements of a graph at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any, Final, Generic, TypeVar

import numpy as np

from mpiparallel.dataclass import dataclass
from mpiparallel.search.problem.views import Array, Table, View, cells, coarsened, joined_views

_FEW_CODES: Final = 1 << 16
Item = TypeVar("Item")
Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Symbol(Generic[Item]):
    """``items``, and a table of their numbers: which one it is under which options."""

    table: Table
    items: tuple[Item, ...]

    @classmethod
    def always(cls, item: Item) -> Symbol[Item]:
        """Return what is the same whatever is chosen."""
        return cls(Table((), np.zeros((), np.int64)), (item,))

    @property
    def choices(self) -> tuple[int, ...]:
        """The numbers of the choices that make a difference."""
        return self.table.choices

    @cached_property
    def pattern(self) -> Hashable:
        """What symbols have in common that differ by the numbers of their choices."""
        return self.table.pattern, id(self.items) if self.table.views else self.items

    def renumbered(self, numbers: Mapping[int, int]) -> Symbol[Item]:
        """Return the same symbol of other choices, in the same order."""
        other = object.__new__(Symbol)
        vars(other).update(table=self.table.renumbered(numbers), items=self.items, pattern=self.pattern)
        return other

    def at(self, options: Sequence[int]) -> Item:
        """Return what it is where each choice has the option of its number."""
        return self.items[int(self.table.at(options))]

    def mapped(self, function: Callable[[Item], Made]) -> Symbol[Made]:
        """Return the symbol of a function of what it is."""
        return made_symbol(self.table.views, self.table.values, [function(item) for item in self.items])

    def prices(self, price: Callable[[Item], float]) -> Table:
        """Return the table of a number for what it is."""
        numbers = np.array([price(item) for item in self.items])
        return coarsened(self.table.views, numbers[self.table.values])


def made_symbol(views: Sequence[View], numbers: Any, made: Sequence[Made]) -> Symbol[Made]:
    """Return the symbol whose items are ``made``, in the places of ``numbers``; equal items become one."""
    distinct: dict[Made, int] = {}
    merged = np.array([distinct.setdefault(one, len(distinct)) for one in made])
    return Symbol(coarsened(views, merged[numbers]), tuple(distinct))


def combined(symbols: Sequence[Symbol[Any]], function: Callable[..., Made]) -> Symbol[Made]:
    """Return the symbol of a function of several, called once for each combination that there is."""
    views, numbers, rows = combinations(symbols)
    given = (map(symbol.items.__getitem__, row.tolist()) for symbol, row in zip(symbols, rows, strict=True))
    made = [function(*items) for items in zip(*given, strict=True)] if symbols else [function()]
    return made_symbol(views, numbers, made)


def combined_cells(symbols: Sequence[Symbol[Any]]) -> int:
    """Return how many cells a table over all choices of some symbols has."""
    return cells(joined_views(symbol.table for symbol in symbols))


def combinations(symbols: Sequence[Symbol[Any]]) -> tuple[tuple[View, ...], Array, list[Array]]:
    """Return the views of several symbols together, which combination is where, and the number of each one's item."""
    views = joined_views(symbol.table for symbol in symbols)
    shape = tuple(view.count for view in views)
    codes = np.zeros(shape, np.int64)
    for symbol in symbols:
        codes = codes * len(symbol.items) + symbol.table.over(views)
    known, places = _distinct(codes, prod(len(symbol.items) for symbol in symbols))
    rows: list[Array] = []
    for symbol in reversed(symbols):
        known, row = np.divmod(known, len(symbol.items))
        rows.insert(0, row)
    return views, places.reshape(shape), rows


def _distinct(codes: Array, most: int) -> tuple[Array, Array]:
    """Return the distinct codes, which are below ``most``, and which of them each is."""
    if most > max(codes.size, _FEW_CODES):
        found: tuple[Array, Array] = np.unique(codes, return_inverse=True)
        return found
    seen = np.zeros(most, bool)
    seen[codes.ravel()] = True
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[codes]
