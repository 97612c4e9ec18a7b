"""What repeats is worked out once: layers of a network are alike, but for the numbers of their choices."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np

from mpiparallel.dataclass import dataclass
from mpiparallel.search.problem.symbol import Symbol
from mpiparallel.search.problem.views import Array, Table, View, whole_view

Made = TypeVar("Made")


@dataclass(frozen=True)
class _Known:
    choices: tuple[int, ...]
    made: Any
    parts: tuple[Any, ...]
    """They are kept, for patterns tell arrays apart by where they are."""


class Repeats:
    """Results of symbols and tables; those of others that have other choices, but are alike, follow from them."""

    def __init__(self) -> None:
        self._known: dict[Hashable, _Known] = {}
        self._wholes: dict[int, View] = {}
        self._arrays: dict[Hashable, Array] = {}
        self._items: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def whole_view(self, choice: int, options: int) -> View:
        """Return the view that tells all options of a choice apart, alike for choices of as many options."""
        if options not in self._wholes:
            view = whole_view(choice, options)
            self._wholes[options] = View(choice, self._array(view.classes))
        return self._wholes[options].of(choice)

    def of(self, what: Hashable, parts: Sequence[Symbol[Any] | Table], make: Callable[[], Made]) -> Made:
        """Return what ``make`` returns: ``what`` it does, and ``parts`` in their order, say all that it depends on.

        It is tables, symbols, None, and lists, tuples and mappings of these.
        """
        choices, key = _choices_and_key(what, parts)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _Known(choices, self._shared(make()), tuple(parts))
        if known.choices == choices:
            made: Made = known.made
        else:
            made = _renumbered(known.made, dict(zip(known.choices, choices, strict=True)))
        return made

    def _shared(self, made: Any) -> Any:
        """Return the same, with arrays and items that are one object wherever they are equal."""
        if isinstance(made, Table):
            views = tuple(View(view.choice, self._array(view.classes)) for view in made.views)
            return Table(views, self._array(made.values))
        if isinstance(made, Symbol):
            return Symbol(self._shared(made.table), self._items.setdefault(made.items, made.items))
        if isinstance(made, (list, tuple)):
            return type(made)(self._shared(one) for one in made)
        return self._array(made) if isinstance(made, np.ndarray) else made

    def _array(self, array: Array) -> Array:
        key = array.dtype.char, array.shape, blake2b(array.tobytes()).digest()
        return self._arrays.setdefault(key, array)


def _choices_and_key(what: Hashable, parts: Sequence[Symbol[Any] | Table]) -> tuple[tuple[int, ...], Hashable]:
    """Return the choices of some parts, and what is equal where these are alike but for the numbers of the choices."""
    sides = [part.choices for part in parts]
    patterns = tuple([part.pattern for part in parts])
    if not sides or sides.count(sides[0]) == len(sides):
        # Most often all depend on the same choices, which stand in order.
        return sides[0] if sides else (), (what, patterns)
    choices = tuple(sorted({choice for side in sides for choice in side}))
    places = {choice: place for place, choice in enumerate(choices)}
    return choices, (what, patterns, tuple([tuple([places[choice] for choice in side]) for side in sides]))


def _renumbered(made: Any, numbers: Mapping[int, int]) -> Any:
    if isinstance(made, (Table, Symbol)):
        return made.renumbered(numbers)
    if isinstance(made, (list, tuple)):
        return type(made)(_renumbered(one, numbers) for one in made)
    return made
