"""Which rank reads what from the files, and who gets it from that rank; the same on every rank, found by arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import prod
from types import EllipsisType
from typing import Any, Final, NamedTuple

from mpiparallel.checkpoint.stored_state import Parts, StoredTensor
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.box import Box, part_bounds
from mpiparallel.layout.layout import Layout

ArrayIndex = tuple[slice | EllipsisType, ...]

# A slice that many ranks want is read by several of them where it is worth a message of its own.
_LEAST_BYTES: Final = 4 << 20


@dataclass(frozen=True)
class ReadPiece:
    """Whole rows of a slice in a file, from its element ``first`` on: ``box`` counts elements of the global tensor.

    ``takers`` are the ranks that hold an element of it afterwards. ``own`` is what this rank holds of it afterwards,
    None for nothing. That lies at ``target`` in what this rank holds afterwards, and at ``place`` in the piece.
    """

    parts: Parts
    box: Box
    first: int
    takers: tuple[int, ...]
    own: Box | None
    target: ArrayIndex = ()
    place: ArrayIndex = ()


class Reading(NamedTuple):
    """One piece of one tensor that ``reader`` reads, ``nbytes`` long, for all who want it.

    ``offset`` is where it lies, in bytes, in what the reader shows to others; -1 where it shows it to nobody.
    """

    tensor: str
    piece: ReadPiece
    reader: int
    nbytes: int
    offset: int

    @property
    def is_private(self) -> bool:
        """Whether its reader is the only one who wants it."""
        return self.offset < 0


Wave = list[Reading]
_Costed = tuple[ReadPiece, int, int]


class ReadingPlan:
    """What all ranks read to have each tensor by its target layout afterwards, in waves that bound what is in transit.

    In a wave about ``wave_bytes`` for each rank, at most, are taken from others. Ranks read about as much each, as far
    as they want it themselves. Each tensor of ``targets`` must be stored, in its shape: see ``check_stored``.
    """

    def __init__(
        self,
        stored: Mapping[str, StoredTensor],
        targets: Mapping[str, Layout],
        rank: int,
        size: int,
        wave_bytes: int = 64 << 20,
    ) -> None:
        self._rank, self._size, self._wave_bytes = rank, size, wave_bytes
        self._loads = [0] * size
        self._known: dict[Any, list[_Costed]] = {}
        self.waves: list[Wave] = []
        self.shown_bytes = 0
        self._fill_waves(stored, targets)

    def _fill_waves(self, stored: Mapping[str, StoredTensor], targets: Mapping[str, Layout]) -> None:
        wave: Wave = []
        shown, delivered = [0] * self._size, 0
        for name in sorted(targets):
            for piece, nbytes, arriving in self._pieces(stored[name], targets[name]):
                if wave and delivered + arriving > self._wave_bytes * self._size:
                    self._close(wave, shown)
                    wave, shown, delivered = [], [0] * self._size, 0
                reader = min(piece.takers, key=self._loads.__getitem__)
                self._loads[reader] += nbytes + 1
                if piece.takers == (reader,):
                    wave.append(Reading(name, piece, reader, nbytes, -1))
                    continue
                wave.append(Reading(name, piece, reader, nbytes, shown[reader]))
                # Arrays of any dtype begin at multiples of 64.
                shown[reader] += -(-nbytes // 64) * 64
                delivered += arriving
        if wave:
            self._close(wave, shown)

    def _close(self, wave: Wave, shown: list[int]) -> None:
        self.waves.append(wave)
        self.shown_bytes = max(self.shown_bytes, *shown)

    def _pieces(self, tensor: StoredTensor, target: Layout) -> list[_Costed]:
        """Return the pieces of a tensor, with their bytes, and those that arrive on all ranks together."""
        # Many tensors share few layouts, and objects are compared faster than what they say.
        key = (id(tensor.layout), id(target), tensor.dtype.itemsize)
        found = self._known.get(key)
        if found is None:
            sizes = ((piece, piece.box.size * tensor.dtype.itemsize) for piece in self._cut(tensor, target))
            found = self._known[key] = [(piece, nbytes, nbytes * target.replica_count) for piece, nbytes in sizes]
        return found

    def _cut(self, tensor: StoredTensor, target: Layout) -> Iterator[ReadPiece]:
        """Yield the pieces in which the slices of a tensor are read, none of them empty."""
        layout = tensor.layout
        own = target.box(self._rank) if self._rank in target.devices else None
        for parts in product(*(range(cut.parts) for cut in layout.dim_cuts)):
            held = layout.box_of_parts(parts)
            if held.empty:
                continue
            takers = len(_takers(target, held))
            rows = held.shape[0] if held.shape else 1
            row = prod(held.shape[1:])
            nbytes = held.size * tensor.dtype.itemsize
            count = max(min(takers, nbytes // _LEAST_BYTES), -(-nbytes // self._wave_bytes), 1)
            for index in range(min(count, rows)):
                first, stop = part_bounds(rows, min(count, rows), index)
                box = _rows(held, first, stop)
                wanted = None if own is None else own.intersection(box)
                piece = ReadPiece(parts, box, first * row, _takers(target, box), wanted)
                if own is not None and wanted is not None:
                    piece = replace(piece, target=index_of(wanted, own), place=index_of(wanted, box))
                yield piece


def index_of(box: Box, outer: Box) -> ArrayIndex:
    """Return what selects the view of ``box`` of an array that holds ``outer``."""
    return (*box.within(outer), ...)


def _takers(target: Layout, box: Box) -> tuple[int, ...]:
    """Return the ranks that hold an element of ``box``, ascending."""
    replicas = range(target.replica_count)
    return tuple(sorted(target.rank_at(parts, replica) for parts in target.parts_over(box) for replica in replicas))


def _rows(held: Box, first: int, stop: int) -> Box:
    if not held.start:
        return held
    begin = held.start[0]
    return Box((begin + first, *held.start[1:]), (begin + stop, *held.stop[1:]))


def check_stored(stored: Mapping[str, StoredTensor], targets: Mapping[str, Layout]) -> None:
    """Raise ``CheckpointError`` for a tensor that is not stored, or is of another shape."""
    for name, target in targets.items():
        if name not in stored:
            raise CheckpointError(f'tensor "{name}" is not in the checkpoint; load the network that was saved')
        shape = stored[name].layout.global_shape
        if shape != target.global_shape:
            raise CheckpointError(
                f'tensor "{name}" has shape {shape} in the checkpoint, {target.global_shape} in the network; load the '
                "network that was saved"
            )
