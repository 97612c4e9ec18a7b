"""What no method can beat: copies in memory."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray
from resharding.work import Arrays, Unsuited, Work, part

from mpiparallel.layout.layout import Layout

_ALIGNMENT = 64


class Memcpy:
    """All ranks copy as many bytes as they hold afterwards, in one piece, at the same time."""

    def __init__(self, work: Work) -> None:
        size = sum(array.size for array in work.new_arrays(1).values())
        self._source, self._target = np.ones(size, np.float32), np.zeros(size, np.float32)

    def run(self) -> None:
        np.copyto(self._target, self._source)

    def results(self) -> None:
        """Return nothing: it moves nothing to where it belongs."""


class SharedWindow:
    """Sources lie in shared memory; each rank copies what it needs from where it lies, in one strided pass."""

    def __init__(self, work: Work) -> None:
        if work.comm.Split_type(MPI.COMM_TYPE_SHARED).Get_size() < work.ranks:
            raise Unsuited("ranks on several hosts")
        held = work.sources
        starts, length = places(array.shape for array in held.values())
        self._window = MPI.Win.Allocate_shared(max(length, _ALIGNMENT), 1, comm=work.comm)
        for (name, array), start in zip(held.items(), starts, strict=True):
            np.copyto(self._view(work.layouts[name][0], work.rank, start), array)
        self._targets = work.new_arrays(1)
        self._targets.update({name: held[name] for name in work.plan.kept})
        offsets: dict[int, dict[str, int]] = {}
        self._copies = []
        for transfer in (*work.plan.receives, *work.plan.copies):
            source = transfer.source
            if source not in offsets:
                offsets[source] = offsets_of(work, source)
            layout = work.layouts[transfer.tensor][0]
            lying = self._view(layout, source, offsets[source][transfer.tensor])
            self._copies.append((work.incoming(transfer, self._targets), part(lying, layout, source, transfer.box)))
        work.comm.Barrier()

    def _view(self, layout: Layout, rank: int, start: int) -> NDArray[np.float32]:
        memory = np.frombuffer(self._window.Shared_query(rank)[0], np.uint8)
        shape = layout.local_shape(rank)
        size = layout.box(rank).size * np.dtype(np.float32).itemsize
        return memory[start : start + size].view(np.float32).reshape(shape)

    def run(self) -> None:
        for target, source in self._copies:
            np.copyto(target, source)

    def results(self) -> Arrays:
        return self._targets

    def close(self) -> None:
        self._copies.clear()
        self._window.Free()


def offsets_of(work: Work, rank: int) -> dict[str, int]:
    """Return where the window of ``rank`` has each tensor that it holds before."""
    names = [name for name, (source, _) in work.layouts.items() if rank in source.devices]
    starts, _ = places(work.layouts[name][0].local_shape(rank) for name in names)
    return dict(zip(names, starts, strict=True))


def places(shapes: Iterable[tuple[int, ...]]) -> tuple[list[int], int]:
    """Return the byte at which each float32 array of these shapes starts, aligned, and where the last one ends."""
    starts, end = [], 0
    for shape in shapes:
        starts.append(end)
        size = int(np.prod(shape)) * np.dtype(np.float32).itemsize
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return starts, end
