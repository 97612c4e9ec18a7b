"""Checksums of windows: of a few pieces of a stream together, while they move or where they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
import xxhash

from mpiparallel.reshard import memory
from mpiparallel.reshard.bound_plan import PeerPieces
from mpiparallel.reshard.pieces import Piece, byte_view, run_length, runs

# One checksum for many small pieces, one for each large one.
_WINDOW_BYTES: Final = 1 << 20
# What is strided is put in a row in portions that stay in the processor's cache.
PORTION_BYTES: Final = 1 << 18


class ChecksumStep(NamedTuple):
    """A copy to a target from a source, and the bytes that the checksum goes on with after it."""

    copy: tuple[Piece, Piece] | None
    content: memoryview | None


class Checksummer:
    """Makes 64-bit XXH3 checksums of the elements of pieces in C order, with one small buffer for all of them.

    Steps can be made once and carried out many times, in their order, those of one checksum at a time. Raises
    MemoryError, when it is made, where there is no room for the buffer.
    """

    def __init__(self, scratch_bytes: int) -> None:
        self._portion = memory.allocate((min(PORTION_BYTES, scratch_bytes),), np.dtype(np.uint8))

    def reading(self, pieces: Iterable[Piece]) -> Iterator[ChecksumStep]:
        """Yield the steps to the checksum of all pieces, one after the other."""
        for piece in pieces:
            if piece.flags.c_contiguous:
                yield ChecksumStep(None, byte_view(piece).data)
                continue
            for (run,) in self._runs(piece):
                yield self._into_a_row(run)

    def moving(self, pairs: Iterable[tuple[Piece, Piece]]) -> Iterator[ChecksumStep]:
        """Yield the steps that copy the second piece of each pair into the first, and to the checksum of all."""
        for target, source in pairs:
            for into, run in self._runs(target, source):
                if into.flags.c_contiguous:
                    # Just written, so it is read from the cache; a detour of the source is half as slow again.
                    yield ChecksumStep((into, run), byte_view(into).data)
                elif run.flags.c_contiguous:
                    yield ChecksumStep((into, run), byte_view(run).data)
                else:
                    step = self._into_a_row(run)
                    yield step
                    yield ChecksumStep((into, step.copy[0] if step.copy else run), None)

    def of(self, pieces: Iterable[Piece]) -> int:
        """Return the checksum of all pieces, one after the other."""
        return carry_out(self.reading(pieces))

    def _runs(self, *pieces: Piece) -> Iterator[tuple[Piece, ...]]:
        """Yield views of pieces of one shape, side by side, that fit into a portion."""
        first = pieces[0]
        if first.nbytes <= self._portion.nbytes:
            yield pieces
            return
        step = run_length(first, max(1, self._portion.nbytes // first.itemsize))
        for start in range(0, first.size, step):
            yield from zip(*(runs(piece, start, min(start + step, first.size)) for piece in pieces), strict=True)

    def _into_a_row(self, run: Piece) -> ChecksumStep:
        if run.flags.c_contiguous:
            return ChecksumStep(None, byte_view(run).data)
        fits = run.nbytes <= self._portion.nbytes
        # One element alone can be larger than the portion.
        row = self._portion[: run.nbytes].view(run.dtype).reshape(run.shape) if fits else np.empty_like(run, order="C")
        return ChecksumStep((row, run), byte_view(row).data)


def carry_out(steps: Iterable[ChecksumStep]) -> int:
    """Make the copies and return the checksum."""
    checksum = xxhash.xxh3_64()
    for copy, content in steps:
        if copy is not None:
            np.copyto(*copy, casting="no")
        if content is not None:
            checksum.update(content)
    return checksum.intdigest()


def windows(stream: PeerPieces) -> list[slice]:
    """Return which pieces of a stream have a checksum together, the same at both ends."""
    found, first, length = [], 0, 0
    for index, piece in enumerate(stream.pieces, 1):
        length += piece.nbytes
        if length >= _WINDOW_BYTES or index == len(stream.pieces):
            found.append(slice(first, index))
            first, length = index, 0
    return found
