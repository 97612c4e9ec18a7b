"""The device matrix: ranks on ordered axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod

from mpiparallel.errors import LayoutError
from mpiparallel.layout.interned import Interned

_MOST_GROUPS = 16


@dataclass(frozen=True)
class DeviceMatrix(metaclass=Interned):
    """Ranks arranged on axes, the last axis fastest: ``first_rank`` to ``first_rank + size - 1``, or ``ranks``.

    A pure value: it needs no devices and no MPI. Equal matrices are equal values.

    Parameters
    ----------
    shape : tuple of int
        Ranks on each axis.
    first_rank : int
        The rank at the first place.
    ranks : tuple of int
        The rank at each place, distinct and in any order; where they only count up they are left out.

    Raises
    ------
    LayoutError
        For an axis without a device, a negative rank, and ``ranks`` that repeat or do not fill the axes.

    Examples
    --------
    >>> DeviceMatrix((2, 4)).coordinates(6)
    (1, 2)
    >>> DeviceMatrix((2, 2), ranks=(3, 1, 0, 2)).coordinates(0)
    (1, 0)
    """

    shape: tuple[int, ...]
    first_rank: int = 0
    ranks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if any(extent < 1 for extent in self.shape) or self.first_rank < 0:
            raise LayoutError(f"device matrix {self.shape}: give each axis at least one device")
        if self.ranks:
            self._check_ranks()
            object.__setattr__(self, "first_rank", self.ranks[0])
            if self.ranks == tuple(range(self.first_rank, self.first_rank + self.size)):
                object.__setattr__(self, "ranks", ())

    def _check_ranks(self) -> None:
        told = f"{self.ranks[:8]}{'...' if len(self.ranks) > 8 else ''}"
        if len(self.ranks) != self.size or len(set(self.ranks)) != self.size or min(self.ranks) < 0:
            raise LayoutError(f"device matrix {self.shape}, ranks {told}: give {self.size} distinct ranks from 0")
        if self.first_rank not in (0, self.ranks[0]):
            raise LayoutError(f"device matrix {self.shape}, ranks {told}: give ranks or first_rank, not both")

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.shape, self.first_rank, self.ranks))

    @cached_property
    def size(self) -> int:
        """Number of ranks."""
        return prod(self.shape)

    @property
    def members(self) -> Sequence[int]:
        """The ranks in the order of their places; a range where they count up.

        >>> DeviceMatrix((2,), 3).members
        range(3, 5)
        """
        return self.ranks or range(self.first_rank, self.first_rank + self.size)

    @cached_property
    def _places(self) -> dict[int, int]:
        return {rank: place for place, rank in enumerate(self.ranks)}

    def __contains__(self, rank: int) -> bool:
        """Return whether ``rank`` is one of the ranks."""
        return rank in self._places if self.ranks else 0 <= rank - self.first_rank < self.size

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Distance in places of two neighbours on each axis."""
        return tuple(prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))

    def coordinates(self, rank: int) -> tuple[int, ...]:
        """Return the place of ``rank`` on each axis."""
        if rank not in self:
            raise LayoutError(f"rank {rank} is not in device matrix {self.shape} of ranks {self.ranks_text}")
        local = self._places[rank] if self.ranks else rank - self.first_rank
        return tuple(local // stride % extent for stride, extent in zip(self.strides, self.shape, strict=True))

    def rank_at(self, coordinates: Iterable[int]) -> int:
        """Return the rank at ``coordinates``."""
        place = sum(map(int.__mul__, coordinates, self.strides))
        return self.ranks[place] if self.ranks else self.first_rank + place

    def group(self, rank: int, axes: Iterable[int]) -> tuple[int, ...]:
        """Return the ranks, ascending, that differ from ``rank`` only in ``axes``.

        >>> DeviceMatrix((2, 4)).group(6, (0,))
        (2, 6)
        """
        here, moving = self.coordinates(rank), frozenset(axes)
        place = tuple(0 if axis in moving else index for axis, index in enumerate(here))
        found = self._groups.get((moving, place))
        if found is None:
            if len(self._groups) >= _MOST_GROUPS:
                self._groups.clear()
            found = self._groups[moving, place] = self._group(moving, place)
        return found

    def _group(self, moving: frozenset[int], place: tuple[int, ...]) -> tuple[int, ...]:
        places = [sum(map(int.__mul__, place, self.strides))]
        for axis in sorted(moving):
            along = range(0, self.shape[axis] * self.strides[axis], self.strides[axis])
            places = [here + further for here in places for further in along]
        if self.ranks:
            return tuple(sorted(map(self.ranks.__getitem__, places)))
        return tuple(self.first_rank + here for here in places)

    @cached_property
    def _groups(self) -> dict[tuple[frozenset[int], tuple[int, ...]], tuple[int, ...]]:
        # A graph asks for its own rank's groups at each collective; those of all ranks would need much memory.
        return {}

    def reshaped(self, shape: tuple[int, ...]) -> DeviceMatrix:
        """Return the same ranks, in the same order, on other axes."""
        return DeviceMatrix(shape, self.first_rank, self.ranks)

    @property
    def ranks_text(self) -> str:
        """The ranks for a message, a few of them where they do not count up."""
        if not self.ranks:
            last = self.first_rank + self.size - 1
            return f"{self.first_rank} to {last}" if self.size > 1 else str(last)
        return ", ".join(map(str, self.ranks[:8])) + (", ..." if self.size > 8 else "")


def common_refinement(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the coarsest device matrix shape whose axes merge to both shapes, or None when there is none.

    >>> common_refinement((8,), (2, 4))
    (2, 4)
    >>> common_refinement((2, 3), (3, 2)) is None
    True
    """
    ends = sorted({prod(shape[:stop]) for shape in (first, second) for stop in range(1, len(shape) + 1)} | {1})
    steps = list(pairwise(ends))
    if prod(first) != prod(second) or any(high % low for low, high in steps):
        return None
    return tuple(high // low for low, high in steps)


def refined_axes(shape: tuple[int, ...], finer: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return for each axis of ``shape`` the axes of ``finer`` that merge to it.

    Raises LayoutError where ``finer`` does not refine ``shape``.

    >>> refined_axes((8, 3), (2, 4, 3))
    ((0, 1), (2,))
    """
    pieces: list[tuple[int, ...]] = []
    axis = 0
    for extent in shape:
        start, covered = axis, 1
        while covered < extent and axis < len(finer):
            covered *= finer[axis]
            axis += 1
        if covered != extent:
            raise LayoutError(f"device matrix {finer} does not refine {shape}")
        pieces.append(tuple(range(start, axis)))
    return tuple(pieces)
