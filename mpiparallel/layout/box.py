"""Boxes: rectangular parts of a global tensor."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from operator import eq, gt, sub

from mpiparallel.errors import LayoutError


def part_bounds(extent: int, parts: int, index: int) -> tuple[int, int]:
    """Return ``[start, stop)`` of part ``index`` when ``extent`` elements are cut into ``parts``.

    The first ``extent % parts`` parts are one element larger; a part may be empty.

    >>> [part_bounds(10, 4, index) for index in range(4)]
    [(0, 3), (3, 6), (6, 8), (8, 10)]
    """
    size, larger = divmod(extent, parts)
    if index < larger:
        return index * (size + 1), (index + 1) * (size + 1)
    start = index * size + larger
    return start, start + size


def part_at(extent: int, parts: int, element: int) -> int:
    """Return the part that holds ``element`` when ``extent`` elements are cut into ``parts``.

    >>> [part_at(10, 4, element) for element in (0, 2, 3, 9)]
    [0, 0, 1, 3]
    """
    size, larger = divmod(extent, parts)
    border = larger * (size + 1)
    if element < border:
        return element // (size + 1)
    return larger + (element - border) // size


@dataclass(frozen=True, slots=True)
class Box:
    """The elements ``[start, stop)`` in each dim of a global tensor.

    Two boxes with equal bounds hold the same elements. A box with an empty dim holds none; a 0-d box holds one.

    Parameters
    ----------
    start, stop : tuple of int
        The first element in each dim, and the one behind the last.

    Raises
    ------
    LayoutError
        When they are not equally long, or an element is negative or behind the stop.

    Examples
    --------
    >>> Box((0, 2), (4, 6)).shape
    (4, 4)
    """

    start: tuple[int, ...]
    stop: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.start) != len(self.stop) or any(map(gt, self.start, self.stop)):
            raise LayoutError(f"box {self.start}:{self.stop} is not one: give each dim a start not above its stop")

    @classmethod
    def whole(cls, shape: tuple[int, ...]) -> Box:
        """Return the box of all elements of a tensor of ``shape``."""
        return cls((0,) * len(shape), shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of each dim, in elements."""
        return tuple(map(sub, self.stop, self.start))

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def empty(self) -> bool:
        """Whether the box holds no element."""
        return any(map(eq, self.start, self.stop))

    def intersection(self, other: Box) -> Box | None:
        """Return the elements in both boxes, or None when there are none.

        >>> Box((0,), (4,)).intersection(Box((3,), (9,)))
        Box(start=(3,), stop=(4,))
        """
        start = tuple(map(max, self.start, other.start))
        stop = tuple(map(min, self.stop, other.stop))
        if any(a >= b for a, b in zip(start, stop, strict=True)):
            return None
        return Box(start, stop)

    def contains(self, other: Box) -> bool:
        """Return whether each element of ``other`` is in this box; an empty box is in every box."""
        if other.empty:
            return True
        return all(a <= b for a, b in zip(self.start, other.start, strict=True)) and all(
            a >= b for a, b in zip(self.stop, other.stop, strict=True)
        )

    def within(self, outer: Box) -> tuple[slice, ...]:
        """Return the slices that select this box from an array that holds ``outer``.

        >>> Box((3, 1), (4, 2)).within(Box((2, 0), (9, 9)))
        (slice(1, 2, None), slice(1, 2, None))
        """
        return tuple(
            slice(start - offset, stop - offset)
            for start, stop, offset in zip(self.start, self.stop, outer.start, strict=True)
        )


_SET_START = Box.__dict__["start"].__set__
_SET_STOP = Box.__dict__["stop"].__set__


def sound_box(start: tuple[int, ...], stop: tuple[int, ...]) -> Box:
    """Return the box of bounds that are known to be sound, unchecked: for those who make a hundred thousand.

    >>> sound_box((0,), (3,)) == Box((0,), (3,))
    True
    """
    box = object.__new__(Box)
    _SET_START(box, start)
    _SET_STOP(box, stop)
    return box
