"""Where a reshard takes memory: for windows, and for targets, private to a rank or shared by those of a host."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.shared_memory import SharedMemory
from mpiparallel.dataclass import dataclass
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.pieces import aligned

# A shared block is given back when the last of its arrays is gone, so blocks are small against a state.
_BLOCK_BYTES: Final = 32 << 20


def allocate(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array whose elements are not set; raises MemoryError where there is no room for it."""
    return np.empty(shape, dtype)


@dataclass(frozen=True)
class Targets:
    """The arrays that a reshard fills on this rank, and the blocks of shared memory that some of them are in."""

    arrays: dict[str, NDArray[Any]]
    blocks: list[SharedMemory] = field(default_factory=list)
    block_of: dict[str, int] = field(default_factory=dict)


def private_targets(
    layouts: Mapping[str, Layout],
    dtypes: Mapping[str, np.dtype[Any]],
    rank: int,
    new: Callable[[tuple[int, ...], np.dtype[Any]], Any] | None = None,
) -> Targets:
    """Return arrays for what ``rank`` holds by ``layouts``, made by ``new``; without it the host's."""
    make = new or allocate
    held = {tensor: layout for tensor, layout in layouts.items() if rank in layout.devices}
    return Targets({tensor: make(layout.local_shape(rank), dtypes[tensor]) for tensor, layout in held.items()})


def shared_targets(
    layouts: Mapping[str, Layout],
    dtypes: Mapping[str, np.dtype[Any]],
    kept: Collection[str],
    communicator: Communicator,
) -> Targets:
    """Return the same, but for what is ``kept`` on this rank, in memory that the other ranks of the host see.

    All ranks call it together. Raises MemoryError on every rank where one of them does not get it.
    """
    rank = communicator.ranks[communicator.rank]
    targets = Targets({})
    for tensors in _blocks(layouts, dtypes):
        own = [tensor for tensor in tensors if rank in layouts[tensor].devices and tensor not in kept]
        starts, end = {}, 0
        for tensor in own:
            starts[tensor] = end
            end = aligned(end + layouts[tensor].box(rank).size * dtypes[tensor].itemsize)
        block = communicator.share(end)
        for tensor, start in starts.items():
            shape = layouts[tensor].local_shape(rank)
            targets.arrays[tensor] = np.ndarray(shape, dtypes[tensor], block.own, start)
            targets.block_of[tensor] = len(targets.blocks)
        targets.blocks.append(block)
    return targets


def _blocks(layouts: Mapping[str, Layout], dtypes: Mapping[str, np.dtype[Any]]) -> list[list[str]]:
    """Return which tensors share a block, the same on every rank."""
    blocks: list[list[str]] = []
    room = 0
    for tensor in sorted(layouts):
        needed = layouts[tensor].largest_size * dtypes[tensor].itemsize
        if not blocks or needed > room:
            blocks.append([])
            room = _BLOCK_BYTES
        blocks[-1].append(tensor)
        room -= needed
    return blocks
