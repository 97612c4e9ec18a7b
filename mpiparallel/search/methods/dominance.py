"""Options that something else is never dearer than, whatever the other choices are: nobody needs to look at them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from mpiparallel.dataclass import dataclass
from mpiparallel.search.problem.repeats import Repeats
from mpiparallel.search.problem.views import Array, Table, joined_views

_BETTER: Final = 24
_PASSES: Final = 4


@dataclass(frozen=True)
class Undominated:
    """Tables over the options that are left; ``kept`` are these of each choice, by their numbers before."""

    tables: tuple[Table, ...]
    kept: tuple[Array, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """How many options each choice has left."""
        return tuple(options.size for options in self.kept)


def all_options(tables: Sequence[Table], counts: Sequence[int]) -> Undominated:
    """Return the problem as it is."""
    return Undominated(tuple(tables), tuple(np.arange(count) for count in counts))


def undominated(tables: Sequence[Table], counts: Sequence[int], repeats: Repeats) -> Undominated:
    """Return the problem without options that another of their choice is never dearer than; its least cost stays.

    Each option is held against those that promise most by themselves; of two that are always equal the first stays.
    """
    left = _Left(tables, counts, repeats)
    changed = set(range(len(counts)))
    for _ in range(_PASSES):
        again: set[int] = set()
        for choice in sorted(changed):
            if left.drop(choice):
                again |= left.neighbours(choice)
        changed = again
    return Undominated(tuple(left.tables.values()), tuple(left.kept))


class _Left:
    def __init__(self, tables: Sequence[Table], counts: Sequence[int], repeats: Repeats) -> None:
        self._repeats = repeats
        self.tables = dict(enumerate(tables))
        self.kept = [repeats.whole_view(choice, count).classes for choice, count in enumerate(counts)]
        self._near: list[list[int]] = [[] for _ in counts]
        for number, table in self.tables.items():
            for choice in table.choices:
                self._near[choice].append(number)

    def neighbours(self, choice: int) -> set[int]:
        """Return the choices that stand in a table with one."""
        return {other for number in self._near[choice] for other in self.tables[number].choices} - {choice}

    def drop(self, choice: int) -> bool:
        """Drop the dominated options of a choice; return whether there were any."""
        near = [self.tables[number] for number in self._near[choice] if choice in self.tables[number].choices]
        if not near:
            return False
        place = sorted({other for table in near for other in table.choices}).index(choice)
        stays = self._repeats.of(("undominated", place), near, lambda: _undominated(choice, near))
        if stays.size == self.kept[choice].size:
            return False
        self.kept[choice] = self.kept[choice][stays]
        for number in self._near[choice]:
            table = self.tables[number]
            axis = table.choices.index(choice)
            self.tables[number] = self._repeats.of(
                ("over", id(stays), axis), [table], partial(_over, table, axis, stays)
            )
        return True


def _undominated(choice: int, tables: Sequence[Table]) -> Array:
    """Return the options of a choice that stay, by their numbers."""
    view = next(one for one in joined_views(tables) if one.choice == choice)
    rows = []
    for table in tables:
        axis = table.choices.index(choice)
        seen = table.views[axis].classes[view.first_options]
        rows.append(np.moveaxis(table.values, axis, 0).reshape(table.values.shape[axis], -1)[seen])
    promise = sum((of.min(1) for of in rows), np.zeros(view.count))
    best = np.argsort(promise, kind="stable")[:_BETTER]
    with np.errstate(invalid="ignore"):
        # How much dearer each of the best is at most than each option; what neither can be makes no difference.
        dearer = sum((_most_above(of, best) for of in rows), np.zeros((best.size, view.count)))
    stays = np.ones(view.count, bool)
    for place, option in enumerate(best.tolist()):
        if stays[option]:
            worse = dearer[place] <= 0
            worse[option] = False
            stays &= ~worse
    return np.flatnonzero(np.isin(np.arange(view.classes.size), view.first_options[stays]))


def _most_above(rows: Array, best: Array) -> Array:
    found = np.empty((best.size, len(rows)))
    impossible = np.isinf(rows)
    some = bool(impossible.any())
    above = np.empty_like(rows)
    for place, option in enumerate(best.tolist()):
        np.subtract(rows[option], rows, out=above)
        if some:
            above[impossible] = -np.inf
        above.max(1, out=found[place])
    return found


def _over(table: Table, axis: int, stays: Array) -> Table:
    """Return a table over the options of an axis that stay."""
    view = table.views[axis].over(stays)
    seen = table.views[axis].classes[stays][view.first_options]
    return Table((*table.views[:axis], view, *table.views[axis + 1 :]), table.values.take(seen, axis))
