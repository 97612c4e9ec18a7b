"""Saving the state of all ranks: a shard for each, and a manifest once all of them are on disk."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from mpiparallel.checkpoint.array_file import Attribute, infos_of
from mpiparallel.checkpoint.catalogue import commit_time
from mpiparallel.checkpoint.durable_file import clear_partial, make_folder, sync_folder
from mpiparallel.checkpoint.manifest import (
    MANIFEST_SUFFIX,
    Manifest,
    ShardEntry,
    TensorEntry,
    checkpoint_name,
    layout_to_json,
    shard_file,
)
from mpiparallel.checkpoint.regular_file import check_folder, read_regular
from mpiparallel.checkpoint.shard.writer import WrittenShard, write_shard
from mpiparallel.communication.agreement import failing_together, raise_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import CheckpointError, MpiParallelError
from mpiparallel.layout.layout import Layout

Arrays = Mapping[str, NDArray[Any]]

_WORDS_A_SHARD: Final = 4
_MOST_COMPANION_BYTES: Final = 256 << 20


def save_shards(
    folder: str | Path,
    prefix: str,
    epoch: int,
    step: int,
    arrays: Arrays,
    layouts: Mapping[str, Layout],
    communicator: Communicator,
    training: Mapping[str, Any] | None = None,
    remove_redundancy: bool = False,
    companions: Sequence[Path] = (),
) -> Path:
    """Save what each rank holds, and return the path of the manifest; all ranks call it together.

    ``layouts`` are those of the whole state over the members 0, 1, ... of ``communicator``, the same on every rank;
    ``arrays`` those this rank has a box of. ``training`` is kept in the manifest. With ``remove_redundancy`` a slice
    that several ranks hold is written by one of them. ``companions`` of rank 0 are files below ``folder`` whose digests
    the manifest keeps. When it returns, on any rank, the checkpoint is committed: all
    shards and the manifest are on disk. If anything fails on any rank, every rank raises ``CheckpointError`` that says
    where and why, and what ``folder`` held before is as it was.
    """
    save = ShardSave(folder, prefix, epoch, step, layouts, communicator, training, remove_redundancy, companions)
    save.write(arrays)
    return save.commit()


class ShardSave:
    """One save in three steps: agree on it, ``write`` without the other ranks, ``commit`` together.

    ``write`` calls no collective, so a thread may run it while the ranks train on. Making one, and ``commit``, are
    collective. Arguments and errors are those of ``save_shards``; an error of ``write`` is raised by ``commit``, on
    all ranks.
    """

    def __init__(
        self,
        folder: str | Path,
        prefix: str,
        epoch: int,
        step: int,
        layouts: Mapping[str, Layout],
        communicator: Communicator,
        training: Mapping[str, Any] | None = None,
        remove_redundancy: bool = False,
        companions: Sequence[Path] = (),
    ) -> None:
        self._folder = Path(folder)
        self._identity = prefix, epoch, step
        self._layouts = {name: layouts[name] for name in sorted(layouts)}
        self._communicator = communicator
        self._training = dict(training or {})
        self._companions = tuple(companions)
        self._writers = writers(self._layouts) if remove_redundancy else {}
        self._written: WrittenShard | None = None
        self._codes: dict[str, int] = {}
        self._problem: Exception | None = None
        with failing_together(communicator, CheckpointError):
            self.name = checkpoint_name(prefix, epoch, step)
            self.path = self._folder / shard_file(self.name, communicator.rank)
            fingerprint = self._fingerprint()
            if (self._folder / f"{self.name}{MANIFEST_SUFFIX}").exists():
                raise CheckpointError(
                    f"{self._folder}: checkpoint {self.name} is complete already; use another folder or prefix, or "
                    "delete that"
                )
        self._check_same(fingerprint)

    def write(self, arrays: Arrays) -> None:
        """Write the shard of this rank; what goes wrong is told by ``commit``.

        ``arrays`` may lack what this rank does not write.
        """
        try:
            self._check_state(arrays)
            own = {name: arrays[name] for name in self._layouts if name in arrays and self.writes(name)}
            self._codes = {name: ord(array.dtype.char) for name, array in own.items()}
            if own:
                _make_folder(self.path.parent)
                prefix, epoch, step = self._identity
                attributes: dict[str, Attribute] = {
                    "prefix": prefix,
                    "epoch": epoch,
                    "step": step,
                    "rank": self._communicator.rank,
                }
                self._written = write_shard(self.path, infos_of(own), own.items(), attributes)
        except (MpiParallelError, OSError, MemoryError) as error:
            self._problem = error

    def commit(self) -> Path:
        """Make the shards of all ranks a checkpoint, and return the path of its manifest."""
        problem = None if self._problem is None else str(self._problem) or type(self._problem).__name__
        try:
            raise_together(problem, self._communicator, CheckpointError)
        except CheckpointError as error:
            self.abandon()
            raise error from self._problem
        gathered, shards = self._gather()
        # From here on shards stay, even after a failure: the manifest may be there although writing it failed.
        with failing_together(self._communicator, CheckpointError):
            if self._communicator.rank == 0:
                clear_partial(self._folder)
                self._check_shared(shards)
                self._manifest(gathered, shards).write(self._folder)
        if self._communicator.rank == 0:
            self._warn_of_unequal(gathered)
        return self._folder / f"{self.name}{MANIFEST_SUFFIX}"

    def abandon(self) -> None:
        """Delete what this rank has written, for it will not be committed; needs no other rank."""
        if self._written is not None:
            with suppress(OSError):
                self.path.unlink()

    def writes(self, name: str) -> bool:
        """Return whether this rank writes its slice of a tensor that it holds."""
        replica = self._writers.get(name)
        return replica is None or self._layouts[name].replica(self._communicator.rank) == replica

    def _fingerprint(self) -> int:
        described = [
            *self._identity,
            [(name, layout_to_json(layout)) for name, layout in self._layouts.items()],
            self._training,
            bool(self._writers),
        ]
        try:
            text = json.dumps(described, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise CheckpointError(
                f"training: {error}; give numbers, texts, lists and objects that JSON knows"
            ) from error
        return xxhash.xxh3_64_intdigest(text.encode(errors="surrogatepass"))

    def _check_same(self, fingerprint: int) -> None:
        gathered = np.zeros(self._communicator.size, np.uint64)
        self._communicator.all_gather(np.array([fingerprint], np.uint64), gathered)
        others = np.flatnonzero(gathered != gathered[0]).tolist()
        if others:
            raise CheckpointError(
                f"ranks {others} save another prefix, epoch, step, training or other layouts than rank 0; pass the "
                "same on every rank"
            )

    def _check_state(self, arrays: Arrays) -> None:
        rank = self._communicator.rank
        held = {name for name, layout in self._layouts.items() if rank in layout.devices}
        unknown, missing = sorted(set(arrays) - held), sorted(filter(self.writes, held - set(arrays)))
        if unknown or missing:
            raise CheckpointError(
                f"arrays without a layout here: {unknown}, layouts without an array: {missing}; pass one array for "
                "each layout of this rank"
            )
        for name, array in arrays.items():
            shape = self._layouts[name].local_shape(rank)
            if array.shape != shape:
                raise CheckpointError(
                    f'array "{name}" has shape {array.shape}, but {self._layouts[name]} asks for {shape}'
                )

    def _gather(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Return the digest and the dtype's character of each name, and what each shard is, for every rank.

        Zeros stand where a rank has written no such array, or no shard.
        """
        own = np.zeros((len(self._layouts), 2), np.uint64)
        shard = np.zeros(_WORDS_A_SHARD, np.uint64)
        if self._written is not None:
            digest = self._written.digest
            shard[:] = 1, self._written.size, int(digest[:16], 16), int(digest[16:], 16)
            for index, name in enumerate(self._layouts):
                if name in self._codes:
                    own[index] = int(self._written.arrays[name], 16), self._codes[name]
        size = self._communicator.size
        gathered, shards = np.zeros((size, *own.shape), np.uint64), np.zeros((size, *shard.shape), np.uint64)
        self._communicator.all_gather(own, gathered)
        self._communicator.all_gather(shard, shards)
        return gathered, shards

    def _manifest(self, gathered: NDArray[np.uint64], shards: NDArray[np.uint64]) -> Manifest:
        tensors = {
            name: TensorEntry(layout.canonical, _dtype_of(gathered[:, index, 1], name))
            for index, (name, layout) in enumerate(self._layouts.items())
        }
        entries: list[ShardEntry | None] = []
        for rank, (arrays, (there, size, high, low)) in enumerate(zip(gathered.tolist(), shards.tolist(), strict=True)):
            digests = {
                name: f"{digest:016x}" for name, (digest, code) in zip(self._layouts, arrays, strict=True) if code
            }
            entry = ShardEntry(shard_file(self.name, rank), size, f"{high:016x}{low:016x}", digests)
            entries.append(entry if there else None)
        files = {str(path.relative_to(self._folder)): file_digest(path) for path in self._companions}
        return Manifest(*self._identity, tensors, tuple(entries), self._training, commit_time(self._folder), files)

    def _check_shared(self, shards: NDArray[np.uint64]) -> None:
        """Refuse a folder that is another one on another host: what is there could not be loaded from here."""
        hosts: dict[int, int] = {}
        for member, (there, size, *_) in enumerate(shards.tolist()):
            if there and hosts.setdefault(self._communicator.hosts[member], member) == member:
                path = self._folder / shard_file(self.name, member)
                found = path.stat().st_size if path.exists() else None
                if found != size:
                    raise CheckpointError(
                        f"{path}: rank {member} has written {size} bytes there, but here are {found or 'none'}; save "
                        "to a folder that all hosts share"
                    )

    def _warn_of_unequal(self, gathered: NDArray[np.uint64]) -> None:
        """Say where ranks that should hold the same do not: one of them only can be loaded."""
        unequal = []
        for index, (name, layout) in enumerate(self._layouts.items()):
            known: dict[tuple[int, ...], tuple[int, int]] = {}
            for rank in layout.devices.members if layout.replica_count > 1 else ():
                digest, code = gathered[rank, index].tolist()
                first, expected = known.setdefault(layout.parts(rank), (rank, digest)) if code else (rank, digest)
                if digest != expected:
                    unequal.append(f'"{name}" on ranks {first} and {rank}')
        if unequal:
            shown = ", ".join(islice(unequal, 4)) + (f" and {len(unequal) - 4} more" if len(unequal) > 4 else "")
            warnings.warn(
                f"{self._folder}: checkpoint {self.name}: slices that should be equal are not: {shown}; the first is "
                "what will be loaded. Ranks have drifted apart: look for a step that they do not do alike",
                stacklevel=4,
            )


def file_digest(path: Path) -> str:
    """Return the XXH3-128 of a small file, as 32 hexadecimal digits."""
    return xxhash.xxh3_128_hexdigest(read_regular(path, _MOST_COMPANION_BYTES))


def writers(layouts: Mapping[str, Layout]) -> dict[str, int]:
    """Return which replica of each tensor is written where one is enough, so that ranks write about as much.

    >>> from mpiparallel.layout.device_matrix import DeviceMatrix
    >>> writers({name: Layout.replicated((4,), DeviceMatrix((2,))) for name in "ab"})
    {'a': 0, 'b': 1}
    """
    loads: dict[tuple[Any, tuple[int, ...]], list[int]] = {}
    chosen = {}
    for name, layout in sorted(layouts.items(), key=lambda item: (-item[1].largest_size, item[0])):
        load = loads.setdefault((layout.devices, layout.replica_axes), [0] * layout.replica_count)
        chosen[name] = load.index(min(load))
        load[chosen[name]] += layout.largest_size
    return chosen


def _make_folder(folder: Path) -> None:
    """Make the folder of a rank, on disk, and clear it of what a killed save left; no other rank writes there."""
    make_folder(folder)
    check_folder(folder)
    # A job that was killed may have made them, and not come to this.
    sync_folder(folder.parent)
    sync_folder(folder.parent.parent)
    clear_partial(folder)


def _dtype_of(codes: Sequence[Any] | NDArray[np.uint64], name: str) -> str:
    found = sorted({chr(int(code)) for code in codes if code})
    if len({np.dtype(char).str for char in found}) != 1:
        raise CheckpointError(f'tensor "{name}" has dtypes {found} on the ranks; give every rank the same one')
    return np.dtype(found[0]).str
