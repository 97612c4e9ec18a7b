"""What one rank moves, and what it must hold afterwards, by a formula of each element's place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray
from resharding.cases import Layouts

from mpiparallel.layout.box import Box
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.planning.plan import ReshardPlan, Transfer, plan_reshard

Arrays = dict[str, NDArray[np.float32]]
_ELEMENTS_AT_ONCE = 1 << 22


class Unsuited(Exception):  # noqa: N818 - it is no error: a method says what it is not made for
    """A method cannot move this case, for the reason given."""


class WrongResultError(RuntimeError):
    """A method left other elements than NumPy has."""


class Work:
    """A case on one rank of ``comm``: its source arrays, and ``folder``, a place for files that all ranks share.

    Peers may ask for the plan of mpiparallel where a programmer would write loops over boxes; making it is not timed.
    """

    dtype = np.dtype(np.float32)

    def __init__(self, layouts: Layouts, comm: MPI.Intracomm, folder: Path) -> None:
        self.layouts, self.comm, self.folder = layouts, comm, folder
        self.rank, self.ranks = comm.Get_rank(), comm.Get_size()
        self.sources = self.new_arrays(0)
        for name, array in self.sources.items():
            fill(array, name, layouts[name][0].global_shape, layouts[name][0].box(self.rank))

    def new_arrays(self, side: int) -> Arrays:
        """Return an array of NaN for each tensor that this rank holds, before (side 0) or after (side 1)."""
        return {
            name: np.full(pair[side].local_shape(self.rank), np.nan, np.float32)
            for name, pair in self.layouts.items()
            if self.rank in pair[side].devices
        }

    @cached_property
    def plan(self) -> ReshardPlan:
        """What this rank sends, receives, copies and keeps."""
        return plan_reshard(self.layouts, self.rank)

    def outgoing(self, transfer: Transfer, arrays: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Return the view of what ``transfer`` takes from the arrays before."""
        return part(arrays[transfer.tensor], self.layouts[transfer.tensor][0], transfer.source, transfer.box)

    def incoming(self, transfer: Transfer, arrays: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Return the view of what ``transfer`` brings to the arrays after."""
        return part(arrays[transfer.tensor], self.layouts[transfer.tensor][1], transfer.target, transfer.box)

    def check(self, method: str, found: Mapping[str, NDArray[Any]]) -> None:
        """Raise WrongResultError unless ``found`` has every element of this rank's boxes after."""
        for name, (_, target) in self.layouts.items():
            if self.rank not in target.devices:
                continue
            array = np.asarray(found[name]).reshape(target.local_shape(self.rank))
            for rows, box in portions(target.box(self.rank)):
                expected = np.empty(box.shape, np.float32)
                fill(expected, name, target.global_shape, box)
                if not np.array_equal(array[rows], expected):
                    raise WrongResultError(f"{method} left wrong elements of {name} on rank {self.rank}")


def portions(box: Box) -> Iterator[tuple[slice, Box]]:
    """Yield rows of a box, and the box of these, a few million elements at a time."""
    step = max(1, _ELEMENTS_AT_ONCE // max(1, prod(box.shape[1:])))
    for start in range(0, box.shape[0], step):
        stop = min(start + step, box.shape[0])
        first, last = box.start[0] + start, box.start[0] + stop
        yield slice(start, stop), Box((first, *box.start[1:]), (last, *box.stop[1:]))


def part(array: NDArray[Any], layout: Layout, rank: int, box: Box) -> NDArray[Any]:
    """Return the view of ``box``, in elements of the global tensor, in what ``rank`` holds."""
    view: NDArray[Any] = array[(*box.within(layout.box(rank)), ...)]
    return view


def fill(array: NDArray[np.float32], tensor: str, shape: tuple[int, ...], box: Box) -> None:
    """Give each element of ``box`` a number that tells its place in the global tensor, below 2 to the 24."""
    salt = np.uint64(crc32(tensor.encode()))
    strides = np.cumprod([1, *shape[:0:-1]])[::-1]
    for rows, part_of_box in portions(box):
        places = np.zeros((1,) * len(shape), np.uint64)
        for dim, (start, stop) in enumerate(zip(part_of_box.start, part_of_box.stop, strict=True)):
            along = np.arange(start, stop, dtype=np.uint64) * np.uint64(strides[dim])
            places = places + along.reshape([-1 if other == dim else 1 for other in range(len(shape))])
        array[rows] = (places * np.uint64(2654435761) + salt) >> np.uint64(8) & np.uint64(0xFFFFFF)
