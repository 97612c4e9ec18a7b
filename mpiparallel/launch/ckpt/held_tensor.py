"""Who holds what of a tensor: all that a picture needs to know."""

from __future__ import annotations

from math import prod
from typing import NamedTuple


class HeldSlice(NamedTuple):
    """A slice of a tensor: its parts and bounds, who held it, in whose files it is, and which of these are lost."""

    parts: tuple[int, ...]
    start: tuple[int, ...]
    stop: tuple[int, ...]
    ranks: tuple[int, ...]
    files: tuple[int, ...]
    lost: tuple[int, ...]

    @property
    def is_lost(self) -> bool:
        """Whether no file that is of use has it."""
        return set(self.files) <= set(self.lost)


class HeldTensor(NamedTuple):
    """A tensor, cut into ``slices``; ``layout`` says in words how."""

    name: str
    dtype: str
    itemsize: int
    shape: tuple[int, ...]
    cuts: tuple[int, ...]
    layout: str
    slices: tuple[HeldSlice, ...]

    @property
    def nbytes(self) -> int:
        """Length of the whole tensor in bytes."""
        return prod(self.shape) * self.itemsize

    @property
    def who(self) -> tuple[object, ...]:
        """What tensors have in common that are cut alike, though of other shapes."""
        return self.cuts, tuple((part.parts, part.files, part.lost) for part in self.slices)
