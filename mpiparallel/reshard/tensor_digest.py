"""A digest of a whole tensor that does not depend on how it is cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication.agreement import failing_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import ReshardError
from mpiparallel.layout.box import Box
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.pieces import runs

# Elements at a time, so that all that is made of them stays in the cache.
_CHUNK: Final = 1 << 15
_BYTES_A_PLACE: Final = 256
_WORDS: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}

PartDigest = Callable[[Any, Box, tuple[int, ...]], int]
"""What makes the digest of a part, an array, of the box that it is of the whole tensor, which has a shape."""


def digests(
    arrays: Mapping[str, NDArray[Any]],
    layouts: Mapping[str, Layout],
    communicator: Communicator,
    part_digest: PartDigest | None = None,
) -> dict[str, int]:
    """Return a 64-bit digest of each tensor of ``layouts``, the same on every rank and for every layout.

    It is the sum over all elements of their bits, times an odd random weight, modulo 2^64. The weight depends on the
    element's place in the global tensor. So a changed, lost, doubled or misplaced element changes the sum. All ranks
    call it together. ``part_digest`` makes that of a part, by default of one in the host's memory. Raises ReshardError
    on every rank where the replicas of a tensor are not equal.
    """
    digest_of = part_digest or host_digest
    names = sorted(layouts)
    rank = communicator.ranks[communicator.rank]
    own, first = np.zeros((2, len(names)), np.uint64)
    with failing_together(communicator, ReshardError):
        for index, name in enumerate(names):
            if rank in layouts[name].devices:
                own[index] = digest_of(arrays[name], layouts[name].box(rank), layouts[name].global_shape)
                first[index] = own[index] if layouts[name].replica(rank) == 0 else 0
    # Each rank's own digest is mixed before it is compared with its replicas', so that differences cannot cancel.
    held = np.array([rank in layouts[name].devices for name in names])
    leads = np.array([rank in layouts[name].devices and layouts[name].replica(rank) == 0 for name in names])
    sums = np.stack([first, np.where(held, _mixed(own), 0), np.where(leads, _mixed(own), 0)]).astype(np.uint64)
    communicator.all_reduce(sums)
    copies = np.array([layouts[name].replica_count for name in names], np.uint64)
    for index in np.flatnonzero(sums[1] != sums[2] * copies)[:1]:
        raise ReshardError(
            f"{names[index]}: its {copies[index]} replicas are not equal; what is moved must have one value on all "
            "of them"
        )
    return dict(zip(names, sums[0].tolist(), strict=True))


def changed(before: Mapping[str, int], after: Mapping[str, int]) -> Sequence[str]:
    """Return the tensors whose digests differ."""
    return [name for name, digest in sorted(before.items()) if after[name] != digest]


def host_digest(array: Any, box: Box, global_shape: tuple[int, ...], scratch_bytes: int = 64 << 20) -> int:
    """Return what a part in the host's memory, which is ``box`` of a tensor, adds to its digest."""
    chunk = max(1, min(_CHUNK, scratch_bytes // _BYTES_A_PLACE))
    total, start = 0, 0
    for first in range(0, array.size, chunk):
        for run in runs(array, first, min(first + chunk, array.size)):
            words = _as_words(run)
            elements = _places(start, run.size, box, global_shape)
            count = words.shape[1]
            places = np.add.outer(elements * np.uint64(count), np.arange(count, dtype=np.uint64))
            total += int((words * _mixed(places, odd=True)).sum(dtype=np.uint64))
            start += run.size
    return total % (1 << 64)


def _places(start: int, count: int, box: Box, global_shape: tuple[int, ...]) -> NDArray[np.uint64]:
    """Return the index in the global tensor of so many elements of ``box``, from its element ``start`` on."""
    left = np.arange(start, start + count, dtype=np.uint64)
    places = np.zeros_like(left)
    for dim in reversed(range(len(global_shape))):
        left, local = np.divmod(left, np.uint64(box.shape[dim]))
        places += (local + np.uint64(box.start[dim])) * np.uint64(prod(global_shape[dim + 1 :]))
    return places


def _as_words(run: NDArray[Any]) -> NDArray[np.uint64]:
    """Return the bits of each element as one row of unsigned integers; elements of other sizes are so many bytes."""
    words = np.ascontiguousarray(run).reshape(-1)
    kind = _WORDS.get(run.dtype.itemsize, np.uint8)
    return words.view(kind).reshape(run.size, -1).astype(np.uint64)


def _mixed(bits: NDArray[np.uint64], odd: bool = False) -> NDArray[np.uint64]:
    """Return a random number for each: the finalizer of SplitMix64 (Steele, Lea, Flood, 2014)."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (bits ^ (bits >> np.uint64(31))) | np.uint64(odd)
