"""The attributes of a cell as a value: equal while the cell would be traced to the same graph."""

from __future__ import annotations

from collections.abc import Iterable
from operator import is_
from typing import Any

import numpy as np

_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.dtype, np.generic)
_CONTAINERS = (dict, list, tuple)


class Same:
    """Equal only to what holds the very same objects."""

    def __init__(self, held: Iterable[object]) -> None:
        # Kept, so that no other object can take the place of one in memory.
        self._held = tuple(held)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Same) or len(self._held) != len(other._held):
            return False
        return all(map(is_, self._held, other._held))

    __hash__ = None  # type: ignore[assignment]


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
