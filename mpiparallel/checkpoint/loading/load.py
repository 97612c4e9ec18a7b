"""Carrying out a reading plan: read, show, take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.loading.new_arrays import LackOfMemoryError, new_arrays
from mpiparallel.checkpoint.loading.reading_plan import Reading, ReadingPlan, Wave, check_stored, index_of
from mpiparallel.checkpoint.stored_state import StoredState
from mpiparallel.communication.agreement import failing_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.shared_memory import SharedMemory
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.box import Box
from mpiparallel.layout.layout import Layout

Array = NDArray[Any]

_DIGEST_BYTES: Final = 8


def load_state(
    state: StoredState,
    layouts: Mapping[str, Layout],
    communicator: Communicator,
    wave_bytes: int = 16 << 20,
    into: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """Return what this rank holds of each tensor by ``layouts``; all ranks call it together.

    ``layouts`` are over the members 0, 1, ... of ``communicator``, and the same on every rank. They need not be those
    that the state was saved with, nor their ranks as many. Each byte is read by one rank, and passed on to those that
    want it. On the same host it goes through shared memory, to other hosts in messages with checksums. Beside the
    result, up to about twice ``wave_bytes`` for each rank are in transit at a time. A slice whose file is lost or
    damaged is read from a replica; ``state.replaced`` says so on the rank that did. Of tensors in ``into`` the array
    there is filled and returned, if it has the shape and the dtype; after an error it holds anything.

    If anything fails on any rank, ``CheckpointError`` is raised on every rank, with what is lost. Where a rank has no
    room for its part, it is ``LackOfMemoryError``, which says nothing against the files.
    """
    # Most tensors share few layouts; those remember what was asked of them.
    known: dict[Layout, Layout] = {}
    distinct = {id(layout): layout for layout in layouts.values()}
    equal = {key: known.setdefault(layout, layout) for key, layout in distinct.items()}
    layouts = {name: equal[id(layout)] for name, layout in layouts.items()}
    with failing_together(communicator, CheckpointError):
        check_stored(state.tensors, layouts)
    # First the memory: where a file claims more than there can be, there is nothing to plan.
    with failing_together(communicator, LackOfMemoryError):
        wanted = _infos_wanted(state, layouts, communicator.rank)
        given = {name: array for name, array in (into or {}).items() if _fits(array, wanted.get(name))}
        arrays = new_arrays({name: info for name, info in wanted.items() if name not in given}) | given
    with failing_together(communicator, CheckpointError):
        plan = ReadingPlan(state.tensors, layouts, communicator.rank, communicator.size, wave_bytes)
    _Loading(state, layouts, communicator, arrays, plan).run()
    return arrays


def _infos_wanted(state: StoredState, layouts: Mapping[str, Layout], rank: int) -> dict[str, TensorSpec]:
    # What tensors that are alike have in common is worked out once.
    kinds = {name: (id(layout), state.tensors[name].dtype) for name, layout in layouts.items()}
    layout_of = {id(layout): layout for layout in layouts.values()}
    known = {
        (key, dtype): TensorSpec(layout_of[key].local_shape(rank), dtype)
        for key, dtype in set(kinds.values())
        if rank in layout_of[key].devices
    }
    return {name: known[kind] for name, kind in kinds.items() if kind in known}


def _fits(array: Array, wanted: TensorSpec | None) -> bool:
    return wanted is not None and (array.shape, array.dtype) == (wanted.shape, wanted.dtype)


class _Loading:
    def __init__(
        self,
        state: StoredState,
        layouts: Mapping[str, Layout],
        communicator: Communicator,
        arrays: dict[str, Array],
        plan: ReadingPlan,
    ) -> None:
        self._state, self._layouts, self._communicator = state, layouts, communicator
        self._arrays, self._plan = arrays, plan
        self._rank = communicator.rank
        own = communicator.hosts[self._rank]
        is_near = communicator.can_share
        self._near = frozenset(m for m, host in enumerate(communicator.hosts) if is_near and host == own)
        self._shared: list[SharedMemory] = []

    def run(self) -> None:
        """Read the waves, one after the other; what one shows is taken while the next is read into other memory."""
        stages = [self._stage(), self._stage()] if self._plan.shown_bytes else [np.empty(0, np.uint8)] * 2
        try:
            for number, wave in enumerate(self._plan.waves):
                with failing_together(self._communicator, CheckpointError):
                    for reading in wave:
                        if reading.reader == self._rank:
                            self._read(reading, stages[number % 2])
                # The agreement above is also the barrier after which all that is shown can be taken.
                self._take_near(wave, number % 2)
                self._take_far(wave, stages[number % 2])
        finally:
            for memory in self._shared:
                memory.release()

    def _stage(self) -> NDArray[np.uint8]:
        if self._communicator.can_share:
            self._shared.append(self._communicator.share(self._plan.shown_bytes))
            return self._shared[-1].own
        return np.empty(self._plan.shown_bytes, np.uint8)

    def _read(self, reading: Reading, stage: NDArray[np.uint8]) -> None:
        """Read a piece where it is shown, or straight to where it belongs if only this rank wants it."""
        piece, dtype = reading.piece, self._state.tensors[reading.tensor].dtype
        if not reading.is_private:
            shown = stage[reading.offset : reading.offset + reading.nbytes].view(dtype)
            self._state.fill(reading.tensor, piece.parts, piece.first, shown)
            if piece.own is not None:
                self._put(reading, shown)
            return
        if piece.own is None:
            return
        view = self._arrays[reading.tensor][piece.target]
        if piece.own == piece.box and view.flags.c_contiguous:
            self._state.fill(reading.tensor, piece.parts, piece.first, view.reshape(-1))
        else:
            self._state.fill_box(reading.tensor, piece.own, view)

    def _put(self, reading: Reading, shown: Array) -> None:
        """Copy what this rank wants of a piece to where it belongs."""
        piece = reading.piece
        if piece.own is not None:
            target = self._arrays[reading.tensor][piece.target]
            target[...] = shown.reshape(piece.box.shape)[piece.place]

    def _take_near(self, wave: Wave, stage: int) -> None:
        for reading in self._from_others(wave):
            if reading.reader in self._near:
                block = self._shared[stage].of(reading.reader)
                dtype = self._state.tensors[reading.tensor].dtype
                self._put(reading, block[reading.offset : reading.offset + reading.nbytes].view(dtype))

    def _from_others(self, wave: Wave) -> Iterable[Reading]:
        return (reading for reading in wave if reading.reader != self._rank and reading.piece.own is not None)

    def _take_far(self, wave: Wave, stage: NDArray[np.uint8]) -> None:
        """Exchange what ranks of other hosts want, part by part in the order of the wave, with a checksum behind."""
        near, rank = self._near, self._rank
        if len(near) == self._communicator.size:
            return
        wanted: dict[int, list[tuple[Reading, Box]]] = {}
        for reading in wave:
            if reading.reader == rank and not reading.is_private:
                for taker in reading.piece.takers:
                    if taker != rank and taker not in near:
                        shared = self._layouts[reading.tensor].box(taker).intersection(reading.piece.box)
                        wanted.setdefault(taker, []).extend([(reading, shared)] if shared is not None else [])
        coming: dict[int, list[Reading]] = {}
        for reading in self._from_others(wave):
            if reading.reader not in near:
                coming.setdefault(reading.reader, []).append(reading)
        if not self._communicator.any_true(bool(wanted or coming)):
            return
        sends = {taker: self._packed(parts, stage) for taker, parts in wanted.items()}
        receives = {member: self._message(readings) for member, readings in coming.items()}
        self._communicator.exchange(sends, receives)
        with failing_together(self._communicator, CheckpointError):
            for member, readings in coming.items():
                self._unpack(member, readings, receives[member])

    def _packed(self, parts: list[tuple[Reading, Box]], stage: NDArray[np.uint8]) -> NDArray[np.uint8]:
        sizes = [box.size * self._state.tensors[reading.tensor].dtype.itemsize for reading, box in parts]
        message = np.empty(sum(sizes) + _DIGEST_BYTES, np.uint8)
        offset = 0
        for (reading, box), size in zip(parts, sizes, strict=True):
            dtype, outer = self._state.tensors[reading.tensor].dtype, reading.piece.box
            shown = stage[reading.offset : reading.offset + reading.nbytes].view(dtype).reshape(outer.shape)
            row = np.ascontiguousarray(shown[index_of(box, outer)]).reshape(-1)
            message[offset : offset + size] = row.view(np.uint8)
            offset += size
        message[-_DIGEST_BYTES:] = _digest(message)
        return message

    def _message(self, readings: list[Reading]) -> NDArray[np.uint8]:
        sizes = (
            reading.piece.own.size * self._state.tensors[reading.tensor].dtype.itemsize
            for reading in readings
            if reading.piece.own is not None
        )
        return np.empty(sum(sizes) + _DIGEST_BYTES, np.uint8)

    def _unpack(self, member: int, readings: list[Reading], message: NDArray[np.uint8]) -> None:
        if not np.array_equal(message[-_DIGEST_BYTES:], _digest(message)):
            raise CheckpointError(
                f"what rank {member} read has arrived damaged; load again, and have the network looked at"
            )
        offset = 0
        for reading in readings:
            own = reading.piece.own
            if own is None:
                continue
            dtype = self._state.tensors[reading.tensor].dtype
            size = own.size * dtype.itemsize
            part = message[offset : offset + size].copy().view(dtype).reshape(own.shape)
            np.copyto(self._arrays[reading.tensor][reading.piece.target], part)
            offset += size


def _digest(message: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.frombuffer(xxhash.xxh3_64_digest(message[:-_DIGEST_BYTES].data), np.uint8)
