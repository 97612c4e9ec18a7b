"""Layers that are alike, as one row: their numbers become a star."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

TableRow = TypeVar("TableRow")

_NUMBER = re.compile(r"(?<![^/.])\d+(?=[/.])")


@dataclass(frozen=True)
class Folded(Generic[TableRow]):
    """Rows that differ by the numbers of their layers alone: their common name, and all of them."""

    name: str
    rows: tuple[TableRow, ...]

    @property
    def title(self) -> str:
        """The name, and how many there are."""
        return self.name if len(self.rows) == 1 else f"{self.name}  x{len(self.rows)}"


def fold(
    rows: Iterable[TableRow], name: Callable[[TableRow], str], alike: Callable[[TableRow], Hashable]
) -> list[Folded[TableRow]]:
    """Return rows of equal names, but for numbers of layers, that are ``alike``, in the order of the first of each.

    >>> [one.title for one in fold(["net/0/MatMul", "net/1/MatMul", "net/Add-1"], str, lambda row: 0)]
    ['net/*/MatMul  x2', 'net/Add-1']
    """
    found: dict[tuple[str, Hashable], list[TableRow]] = {}
    for row in rows:
        found.setdefault((_NUMBER.sub("*", name(row)), alike(row)), []).append(row)
    return [Folded(pattern if len(some) > 1 else name(some[0]), tuple(some)) for (pattern, _), some in found.items()]
