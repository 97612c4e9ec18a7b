"""The attributes of a cell as a value: equal while the cell would be traced to the same graph."""

from __future__ import annotations

from typing import Any

import numpy as np

_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.dtype, np.generic)


class Same:
    """Equal only to what holds the very same object."""

    def __init__(self, held: object) -> None:
        # Kept, so that no other object can take its place in memory.
        self._held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self._held is other._held

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
    return Same(cell), _value(vars(cell))


def _value(item: Any) -> object:
    if isinstance(item, _PLAIN):
        return type(item), item
    if isinstance(item, dict):
        return tuple((key, _value(one)) for key, one in item.items())
    if isinstance(item, (list, tuple)):
        return (type(item), *map(_value, item))
    return Same(item)
