"""The attributes of a cell as a value: equal while the cell would be traced to the same graph."""

from __future__ import annotations

from collections.abc import Iterable
from operator import is_
from typing import Any
from weakref import ref

import numpy as np

_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.dtype, np.generic)
_CONTAINERS = (dict, list, tuple)


class Same:
    """Equal only to what holds the very same objects."""

    def __init__(self, held: Iterable[object]) -> None:
        # References, or a cell would be kept by what it keeps; an object that takes the place of one has its own.
        self._held = tuple(map(_reference, held))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Same) or len(self._held) != len(other._held):
            return False
        return all(map(is_, self._held, other._held))

    __hash__ = None  # type: ignore[assignment]


def _reference(item: object) -> object:
    try:
        return ref(item)
    except TypeError:
        return item


def attributes_of(cell: object) -> object:
    """Return what ``cell`` is and has: numbers and texts by value, containers by content, all else by identity.

    >>> from types import SimpleNamespace
    >>> network = SimpleNamespace(scale=2.0, layers=[1])
    >>> before = attributes_of(network)
    >>> network.scale = 2.0
    >>> before == attributes_of(network)
    True
    >>> network.layers.append(2)
    >>> before == attributes_of(network)
    False
    """
    return Same([cell]), _value(vars(cell))


def _value(item: Any) -> object:
    if isinstance(item, _PLAIN):
        return type(item), item
    if isinstance(item, dict):
        return tuple(item), _values(item.values())
    if isinstance(item, (list, tuple)):
        return type(item), _values(item)
    return Same([item])


def _values(items: Iterable[Any]) -> object:
    """Return the items as a value; thousands of parameters are compared as fast as the interpreter can."""
    if any(issubclass(kind, (*_PLAIN, *_CONTAINERS)) for kind in set(map(type, items))):
        return tuple(map(_value, items))
    return Same(items)
