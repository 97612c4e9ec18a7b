"""The cheapest options for a sum of tables: one choice after another is decided for all that the others may be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import Final

import numpy as np

from mpiparallel.dataclass import dataclass
from mpiparallel.search.methods.dominance import all_options, undominated
from mpiparallel.search.problem.repeats import Repeats
from mpiparallel.search.problem.views import Array, Table, View, cells, joined_views

_LARGE_TABLE: Final = 1 << 10


@dataclass(frozen=True)
class Elimination:
    """The option of each choice, and their cost. ``exact`` says that there is nothing cheaper."""

    options: tuple[int, ...]
    cost: float
    exact: bool


@dataclass(frozen=True)
class _Decided:
    """A choice that was decided: its best class for all that others may be, as its options."""

    choice: int
    best: Table
    options: Array


def eliminate(
    tables: Sequence[Table],
    counts: Sequence[int],
    most_cells: int,
    repeats: Repeats,
    in_time: Callable[[], bool] = lambda: True,
) -> Elimination:
    """Return the cheapest of all options; ``counts`` has how many each choice has.

    The choice that needs the smallest table goes first. That table may have more than ``most_cells``, or time may be
    over. Then one choice takes the option that promises most by itself, and ``exact`` is false. It is the choice that
    most tables depend on. ``repeats`` has what is alike eliminated once.
    """
    is_large = any(table.values.size > _LARGE_TABLE for table in tables)
    left = undominated(tables, counts, repeats) if is_large else all_options(tables, counts)
    elimination = _Elimination(left.tables, left.counts, repeats)
    exact = True
    while elimination.open:
        choice, size = elimination.cheapest()
        if size <= most_cells and in_time():
            elimination.eliminate(choice)
        else:
            exact = False
            elimination.guess()
    options = tuple(int(kept[one]) for kept, one in zip(left.kept, elimination.options(), strict=True))
    return Elimination(options, float(sum(table.at(options) for table in tables)), exact)


class _Elimination:
    def __init__(self, tables: Sequence[Table], counts: Sequence[int], repeats: Repeats) -> None:
        self._counts, self._repeats = counts, repeats
        self._buckets: dict[int, list[Table]] = {choice: [] for choice in range(len(counts))}
        self._decided: list[_Decided] = []
        self._sizes: dict[int, int] = {}
        self._queue: list[tuple[int, int]] = []
        self._unsized = set(range(len(counts)))
        for table in tables:
            self._put(table)
        self.open = set(range(len(counts)))

    def _put(self, table: Table) -> None:
        for choice in table.choices:
            self._buckets[choice].append(table)
            for other in table.choices:
                self._unsized.add(other)

    def _take(self, choice: int) -> list[Table]:
        tables = self._buckets.pop(choice)
        for table in tables:
            for other in table.choices:
                self._unsized.add(other)
                if other != choice:
                    self._buckets[other] = [one for one in self._buckets[other] if one is not table]
        return tables

    def cheapest(self) -> tuple[int, int]:
        """Return the choice whose elimination needs the smallest table, and its size."""
        for choice in self._unsized & self.open:
            bucket = self._buckets[choice]
            size = self._sizes[choice] = self._repeats.of("cells", bucket, partial(_joint_cells, bucket))
            heappush(self._queue, (size, choice))
        self._unsized.clear()
        while True:
            size, choice = heappop(self._queue)
            if choice in self.open and self._sizes[choice] == size:
                heappush(self._queue, (size, choice))
                return choice, size

    def eliminate(self, choice: int) -> None:
        """Decide a choice for all that the others may be."""
        tables = self._take(choice)
        self.open.remove(choice)
        if not tables:
            self._decided.append(_Decided(choice, _constant(0), np.zeros(1, np.int64)))
            return
        place = sorted({other for table in tables for other in table.choices}).index(choice)
        best, options, made = self._repeats.of(("eliminated", place), tables, partial(_decide, choice, tables))
        self._decided.append(_Decided(choice, best, options))
        if made.views:
            self._put(made)

    def guess(self) -> None:
        """Fix the choice that most tables depend on to its cheapest option, assuming the best of all other choices."""
        choice = max(self.open, key=lambda one: (len(self._buckets[one]), -one))
        tables = self._take(choice)
        self.open.remove(choice)
        promise = np.zeros(self._counts[choice])
        for table in tables:
            axis = table.choices.index(choice)
            others = tuple(place for place in range(len(table.views)) if place != axis)
            promise += table.values.min(others)[table.views[axis].classes]
        option = int(promise.argmin())
        self._decided.append(_Decided(choice, _constant(0), np.array([option])))
        for table in tables:
            axis = table.choices.index(choice)
            rest = (*table.views[:axis], *table.views[axis + 1 :])
            if rest:
                self._put(Table(rest, table.values.take(int(table.views[axis].classes[option]), axis)))

    def options(self) -> tuple[int, ...]:
        found = [0] * len(self._counts)
        for decided in reversed(self._decided):
            found[decided.choice] = int(decided.options[int(decided.best.at(found))])
        return tuple(found)


def lower_bound(tables: Sequence[Table], counts: Sequence[int], most_cells: int) -> float:
    """Return a cost that no options go below: as by elimination, but tables that are too many are decided apart."""
    bound = float(sum(table.values for table in tables if not table.views))
    near: dict[int, list[Table]] = {choice: [] for choice in range(len(counts))}
    sizes: dict[int, int] = {}
    for table in tables:
        for choice in table.choices:
            near[choice].append(table)
    while near:
        sizes.update((choice, _joint_cells(of)) for choice, of in near.items() if choice not in sizes)
        choice = min(near, key=lambda one: (sizes[one], one))
        mine = near.pop(choice)
        made = [_decide(choice, bucket)[2] for bucket in _buckets(mine, most_cells)]
        bound += sum(float(table.values) for table in made if not table.views)
        taken = set(map(id, mine))
        for other in {one for table in mine for one in table.choices} - {choice}:
            near[other] = [table for table in near[other] if id(table) not in taken]
            near[other] += [table for table in made if other in table.choices]
            sizes.pop(other, None)
    return bound


def _joint_cells(tables: Iterable[Table]) -> int:
    return cells(joined_views(tables))


def _decide(choice: int, tables: Sequence[Table]) -> tuple[Table, Array, Table]:
    """Return the best class of a choice for all that others may be, the first option of each, and what it costs."""
    views = joined_views(tables)
    total: Array = np.zeros((1,) * len(views))
    for table in tables:
        total = total + table.over(views)
    axis = next(place for place, view in enumerate(views) if view.choice == choice)
    rest = (*views[:axis], *views[axis + 1 :])
    return Table(rest, total.argmin(axis)), views[axis].first_options, Table(rest, total.min(axis))


def _buckets(tables: Sequence[Table], most_cells: int) -> list[list[Table]]:
    buckets: list[list[Table]] = []
    for table in sorted(tables, key=lambda one: -one.values.size):
        for bucket in buckets:
            if cells(joined_views([*bucket, table])) <= most_cells:
                bucket.append(table)
                break
        else:
            buckets.append([table])
    return buckets


def _constant(value: int) -> Table:
    views: tuple[View, ...] = ()
    return Table(views, np.array(value))
