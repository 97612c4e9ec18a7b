"""The device matrix: ranks on ordered axes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from math import prod

from mpiparallel.errors import LayoutError


@dataclass(frozen=True)
class DeviceMatrix:
    """Ranks ``first_rank`` to ``first_rank + size - 1`` arranged on axes, the last axis fastest.

    A pure value: it needs no devices and no MPI.

    >>> DeviceMatrix((2, 4)).coordinates(6)
    (1, 2)
    """

    shape: tuple[int, ...]
    first_rank: int = 0

    def __post_init__(self) -> None:
        if any(extent < 1 for extent in self.shape) or self.first_rank < 0:
            raise LayoutError(f"device matrix {self.shape}: give each axis at least one device")

    @cached_property
    def size(self) -> int:
        """Number of ranks."""
        return prod(self.shape)

    def __contains__(self, rank: int) -> bool:
        """Return whether ``rank`` is one of the ranks."""
        return 0 <= rank - self.first_rank < self.size

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Distance in ranks of two neighbours on each axis."""
        return tuple(prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))

    def coordinates(self, rank: int) -> tuple[int, ...]:
        """Return the place of ``rank`` on each axis."""
        local = rank - self.first_rank
        if rank not in self:
            last = self.first_rank + self.size - 1
            raise LayoutError(f"rank {rank} is not in device matrix {self.shape} of ranks {self.first_rank} to {last}")
        return tuple(local // stride % extent for stride, extent in zip(self.strides, self.shape, strict=True))

    def rank_at(self, coordinates: Iterable[int]) -> int:
        """Return the rank at ``coordinates``."""
        return self.first_rank + sum(map(int.__mul__, coordinates, self.strides))

    def group(self, rank: int, axes: Iterable[int]) -> tuple[int, ...]:
        """Return the ranks, ascending, that differ from ``rank`` only in ``axes``.

        >>> DeviceMatrix((2, 4)).group(6, (0,))
        (2, 6)
        """
        here = self.coordinates(rank)
        moving = set(axes)
        ranges = [range(n) if axis in moving else (here[axis],) for axis, n in enumerate(self.shape)]
        return tuple(self.rank_at(place) for place in product(*ranges))


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
