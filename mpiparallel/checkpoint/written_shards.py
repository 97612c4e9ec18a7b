"""What all ranks have written of one checkpoint, before it is committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpiparallel.checkpoint.files.digested_file import open_committed
from mpiparallel.checkpoint.manifest_entries import ShardEntry, TensorEntry
from mpiparallel.checkpoint.shard.writer import WrittenShard
from mpiparallel.checkpoint.shard_places import ShardPlaces
from mpiparallel.communication.protocol import Communicator
from mpiparallel.dtype import dtype_of_character, dtype_text
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.layout import Layout

_WORDS_A_SHARD: Final = 4


class WrittenShards:
    """Digest and dtype of each array, length and digest of each shard: what each rank tells, known to all.

    All ranks make it together. ``codes`` has the character of the dtype of each array that this rank has ``written``,
    ``places`` where each rank writes.
    """

    def __init__(
        self,
        layouts: Mapping[str, Layout],
        written: WrittenShard | None,
        codes: Mapping[str, int],
        communicator: Communicator,
        places: ShardPlaces,
    ) -> None:
        self._layouts, self._communicator, self._places = layouts, communicator, places
        # Zeros stand where a rank has written no such array, or no shard.
        arrays = np.zeros((len(layouts), 2), np.uint64)
        shard = np.zeros(_WORDS_A_SHARD, np.uint64)
        if written is not None:
            shard[:] = 1, written.size, int(written.digest[:16], 16), int(written.digest[16:], 16)
            for index, name in enumerate(layouts):
                if name in codes:
                    arrays[index] = int(written.arrays[name], 16), codes[name]
        gathered = _gathered(arrays, communicator)
        self._digests, self._codes = gathered[..., 0], gathered[..., 1]
        self._shards = _gathered(shard, communicator)

    def tensors(self) -> dict[str, TensorEntry]:
        """Return the layout and the dtype of each tensor. Raises ``CheckpointError`` where ranks have other dtypes."""
        known: dict[tuple[Any, ...], str] = {}
        entries: dict[tuple[Layout, str], TensorEntry] = {}
        tensors = {}
        for (name, layout), codes in zip(self._layouts.items(), map(tuple, self._codes.T.tolist()), strict=True):
            if codes not in known:
                known[codes] = _dtype_of(codes, name)
            alike = layout, known[codes]
            if alike not in entries:
                entries[alike] = TensorEntry(layout.canonical, known[codes])
            tensors[name] = entries[alike]
        return tensors

    def shards(self, checkpoint: str) -> tuple[ShardEntry | None, ...]:
        """Return what a manifest says of the shard of each rank."""
        entries: list[ShardEntry | None] = []
        for rank, (there, size, high, low) in enumerate(self._shards.tolist()):
            told = zip(self._layouts, self._digests[rank].tolist(), self._codes[rank].tolist(), strict=True)
            digests = {name: f"{digest:016x}" for name, digest, code in told if code}
            entry = ShardEntry(self._places.file(checkpoint, rank), size, _hex(high, low), digests)
            entries.append(entry if there else None)
        return tuple(entries)

    def unequal(self) -> list[str]:
        """Return where ranks have written different things that should be equal."""
        alike: dict[Layout, list[int]] = {}
        for index, layout in enumerate(self._layouts.values()):
            alike.setdefault(layout, []).append(index)
        found = [
            (index, rank, first)
            for layout, indices in alike.items()
            for replicas in _replicas(layout)
            for index, rank, first in self._unequal_on(replicas, np.array(indices))
        ]
        names = list(self._layouts)
        return [f'"{names[index]}" on ranks {first} and {rank}' for index, rank, first in sorted(found)]

    def _unequal_on(self, replicas: Sequence[int], indices: NDArray[np.intp]) -> Iterable[tuple[int, int, int]]:
        """Yield tensor, rank, and the first of these ranks that has written it, where the two differ."""
        ranks = np.array(replicas)
        there = self._codes[np.ix_(ranks, indices)] != 0
        digests = self._digests[np.ix_(ranks, indices)]
        first = there.argmax(axis=0)
        differs = there & (digests != digests[first, np.arange(len(indices))])
        for place, column in np.argwhere(differs).tolist():
            yield int(indices[column]), replicas[place], replicas[first[column]]

    def check_in(self, folder: Path, checkpoint: str) -> None:
        """Refuse a folder that is another one on another host: what is there could not be loaded from here."""
        seen = {self._communicator.hosts[self._communicator.rank]}
        for member, (there, size, high, low) in enumerate(self._shards.tolist()):
            if not there:
                continue
            path = folder / self._places.file(checkpoint, member)
            found = path.stat().st_size if path.exists() else None
            if found != size:
                raise CheckpointError(
                    f"{path}: rank {member} has written {size} bytes there, but here are {found or 'none'}; save to a "
                    "folder that all hosts share, and name it alike on all ranks"
                )
            if self._communicator.hosts[member] not in seen:
                # A file of an earlier training may be as long.
                seen.add(self._communicator.hosts[member])
                _check_digest(path, member, _hex(high, low))


def _gathered(own: NDArray[np.uint64], communicator: Communicator) -> NDArray[np.uint64]:
    gathered = np.zeros((communicator.size, *own.shape), np.uint64)
    communicator.all_gather(own, gathered)
    return gathered


def _check_digest(path: Path, member: int, digest: str) -> None:
    try:
        open_committed(path, digest).close()
    except CheckpointError as error:
        raise CheckpointError(
            f"{path}: rank {member} has written another file there; save to a folder that all hosts share ({error})"
        ) from error


def _replicas(layout: Layout) -> list[list[int]]:
    """Return the ranks that hold each part, where there are several."""
    if layout.replica_count == 1:
        return []
    holders: dict[tuple[int, ...], list[int]] = {}
    for rank in layout.devices.members:
        holders.setdefault(layout.parts(rank), []).append(rank)
    return list(holders.values())


def _dtype_of(codes: Iterable[int], name: str) -> str:
    found = sorted({dtype_text(dtype_of_character(chr(code))) for code in codes if code})
    if len(found) != 1:
        raise CheckpointError(f'tensor "{name}" has dtypes {found} on the ranks; give every rank the same one')
    return found[0]


def _hex(high: int, low: int) -> str:
    return f"{high:016x}{low:016x}"
