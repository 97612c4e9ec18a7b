"""Tables over choices: each sees of a choice only what makes a difference to it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from mpiparallel.dataclass import dataclass

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class View:
    """What is seen of the choice with this number: ``classes`` has the class of each of its options.

    Classes are numbered from 0 as they are met first.
    """

    choice: int
    classes: Array

    @cached_property
    def count(self) -> int:
        """How many classes there are."""
        return int(self.classes.max()) + 1

    @cached_property
    def first_options(self) -> Array:
        """The first option of each class."""
        return np.array(_alike(self.classes)[1])

    def of(self, choice: int) -> View:
        """Return the same view of another choice."""
        other = object.__new__(View)
        vars(other).update(vars(self), choice=choice)
        vars(other).pop("key", None)
        return other

    def over(self, options: Array) -> View:
        """Return the view of these options alone, numbered anew.

        >>> View(0, np.array([0, 1, 1, 2])).over(np.array([2, 3])).classes.tolist()
        [0, 1]
        """
        return View(self.choice, _numbered(self.classes[options]))

    @cached_property
    def key(self) -> tuple[int, bytes]:
        """What is equal for equal views."""
        return self.choice, self.classes.tobytes()


def whole_view(choice: int, options: int) -> View:
    """Return the view that tells all options of a choice apart."""
    return View(choice, np.arange(options))


def refined(views: Sequence[View]) -> View:
    """Return the coarsest view of a choice that tells apart whatever one of ``views`` does.

    >>> refined([View(0, np.array([0, 0, 1])), View(0, np.array([0, 1, 1]))]).classes.tolist()
    [0, 1, 2]
    """
    found = views[0]
    for other in views[1:]:
        if other.classes is not found.classes and other.key != found.key:
            joint = found.classes * other.count + other.classes
            found = View(found.choice, _numbered(joint))
    return found


def _numbered(labels: Array) -> Array:
    """Return the labels as numbers from 0, in the order in which they are met first."""
    return np.array(_alike(labels)[0])


@dataclass(frozen=True, eq=False)
class Table:
    """A value for each combination of classes of its views, one axis a view, by ascending choices."""

    views: tuple[View, ...]
    values: Array

    @cached_property
    def choices(self) -> tuple[int, ...]:
        """The numbers of the choices that make a difference."""
        return tuple(view.choice for view in self.views)

    @cached_property
    def pattern(self) -> Hashable:
        """What tables have in common that differ by the numbers of their choices; it tells arrays by where they are."""
        if not self.views:
            return float(self.values)
        return (id(self.values), *(id(view.classes) for view in self.views))

    def renumbered(self, numbers: Mapping[int, int]) -> Table:
        """Return the same table of other choices, in the same order."""
        other = object.__new__(Table)
        views = tuple(view.of(numbers[view.choice]) for view in self.views)
        choices = tuple(map(numbers.__getitem__, self.choices))
        vars(other).update(views=views, values=self.values, choices=choices, pattern=self.pattern)
        return other

    def over(self, views: Sequence[View]) -> Array:
        """Return the values over other views, of these choices or more, that tell as much apart or more.

        An axis of a choice that makes no difference has one element.
        """
        found, own = self.values, {view.choice: axis for axis, view in enumerate(self.views)}
        shape = []
        for view in views:
            axis = own.get(view.choice)
            if axis is None:
                shape.append(1)
                continue
            shape.append(view.count)
            if self.views[axis].classes is view.classes:
                continue
            seen = self.views[axis].classes[view.first_options]
            found = found if seen.size == found.shape[axis] and _counts_up(seen) else found.take(seen, axis)
        return found.reshape(shape)

    def at(self, options: Sequence[int]) -> Any:
        """Return the value where each choice has the option of its number."""
        return self.values[tuple(view.classes[options[view.choice]] for view in self.views)]


def _counts_up(numbers: Array) -> bool:
    return bool((numbers == np.arange(numbers.size)).all())


def joined_views(tables: Iterable[Table]) -> tuple[View, ...]:
    """Return the views of a table that tells apart whatever one of ``tables`` does."""
    of_choices: dict[int, list[View]] = {}
    for table in tables:
        for view in table.views:
            of_choices.setdefault(view.choice, []).append(view)
    return tuple(refined(of_choices[choice]) for choice in sorted(of_choices))


def cells(views: Iterable[View]) -> int:
    """Return how many values a table over these views has."""
    return prod(view.count for view in views)


def coarsened(views: Sequence[View], values: Array) -> Table:
    """Return the table without distinctions that make no difference.

    >>> coarsened([whole_view(0, 2), whole_view(1, 3)], np.array([[4, 5, 5], [4, 5, 5]])).values.tolist()
    [4, 5]
    """
    kept: list[View] = []
    for view in views:
        axis = len(kept)
        classes, first = _alike(values.swapaxes(0, axis) if axis else values)
        if len(first) == 1:
            values = values.take(0, axis)
            continue
        if len(first) < len(classes):
            values = values.take(first, axis)
            view = View(view.choice, np.array(classes)[view.classes])
        kept.append(view)
    return Table(tuple(kept), values)


def _alike(rows: Array) -> tuple[list[int], list[int]]:
    """Return which rows are alike, as the number of each, and the first row of each number."""
    known: dict[object, int] = {}
    keys: list[Any] = rows.tolist() if rows.ndim == 1 else [row.tobytes() for row in rows]
    classes = [known.setdefault(key, len(known)) for key in keys]
    first: list[int] = []
    for place, number in enumerate(classes):
        if number == len(first):
            first.append(place)
    return classes, first
