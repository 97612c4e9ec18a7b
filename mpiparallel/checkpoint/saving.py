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

from mpiparallel.checkpoint.catalogue import CheckpointFiles, commit_time
from mpiparallel.checkpoint.files.array_file import infos_of
from mpiparallel.checkpoint.files.durable_file import clear_partial
from mpiparallel.checkpoint.files.regular_file import read_regular
from mpiparallel.checkpoint.manifest import MANIFEST_SUFFIX, Manifest, checkpoint_name
from mpiparallel.checkpoint.manifest_entries import saved_layout_to_json
from mpiparallel.checkpoint.rank_shard import write_rank_shard
from mpiparallel.checkpoint.shard.writer import WrittenShard
from mpiparallel.checkpoint.shard_places import IN_RANK_FOLDERS, ShardPlaces
from mpiparallel.checkpoint.written_shards import WrittenShards
from mpiparallel.communication.agreement import failing_together, raise_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import CheckpointError, MpiParallelError
from mpiparallel.layout.layout import Layout

Arrays = Mapping[str, NDArray[Any]]

# What all ranks must save alike.
_ALIKE: Final = ("prefix, epoch or step", "layout of a tensor", "training", "remove_redundancy", "places of shards")
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
    places: ShardPlaces = IN_RANK_FOLDERS,
) -> Path:
    """Save what each rank holds, and return the path of the manifest; all ranks call it together.

    ``layouts`` are those of the whole state over the members 0, 1, ... of ``communicator``, the same on every rank.
    ``arrays`` are those that this rank has a box of. ``training`` is kept in the manifest. With ``remove_redundancy`` a
    slice that several ranks hold is written by one of them. ``companions`` of rank 0 are files below ``folder`` whose
    digests the manifest keeps. ``places`` says where below ``folder`` each rank writes, and in which format. When it
    returns, on any rank, the checkpoint is committed: all shards and the manifest are on disk. If anything fails on any
    rank, every rank raises ``CheckpointError`` that says where and why, and what ``folder`` held before is as it was.
    """
    save = ShardSave(
        folder, prefix, epoch, step, layouts, communicator, training, remove_redundancy, companions, places
    )
    save.write(arrays)
    return save.commit()


class ShardSave:
    """One save in three steps: agree on it, ``write`` without the other ranks, ``commit`` together.

    ``write`` calls no collective, so a thread may run it while the ranks train on. Making one, and ``commit``, are
    collective. Arguments and errors are those of ``save_shards``; an error of ``write`` is raised by ``commit``, on
    all ranks. ``files`` is what rank 0 has committed.
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
        places: ShardPlaces = IN_RANK_FOLDERS,
    ) -> None:
        self._folder = Path(folder)
        self._identity = prefix, epoch, step
        self._layouts = {name: layouts[name] for name in sorted(layouts)}
        self._communicator = communicator
        self._training = dict(training or {})
        self._companions = tuple(companions)
        self._places = places
        self._writers = writers(self._layouts) if remove_redundancy else {}
        self._written: WrittenShard | None = None
        self._codes: dict[str, int] = {}
        self._problem: Exception | None = None
        self.files: CheckpointFiles | None = None
        with failing_together(communicator, CheckpointError):
            self.name = checkpoint_name(prefix, epoch, step)
            self._file = places.file(self.name, communicator.rank)
            self.path = self._folder / self._file
            fingerprints = self._fingerprints()
            self._check_new()
        self._check_same(fingerprints)

    def write(self, arrays: Arrays) -> None:
        """Write the shard of this rank; what goes wrong is told by ``commit``.

        ``arrays`` may lack what this rank does not write.
        """
        try:
            self._check_state(arrays)
            self._check_new()
            own = {name: arrays[name] for name in self._layouts if name in arrays and self.writes(name)}
            self._codes = {name: ord(array.dtype.char) for name, array in own.items()}
            if own:
                rank = self._communicator.rank
                self._written = write_rank_shard(
                    self._folder, self._identity, rank, infos_of(own), own.items(), clears=True, file=self._file
                )
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
        written = WrittenShards(self._layouts, self._written, self._codes, self._communicator, self._places)
        # From here on shards stay, even after a failure: the manifest may be there although writing it failed.
        with failing_together(self._communicator, CheckpointError):
            if self._communicator.rank == 0:
                clear_partial(self._folder)
                self._check_new()
                written.check_in(self._folder, self.name)
                manifest = self._manifest(written)
                manifest.write(self._folder)
                self.files = CheckpointFiles.of(manifest)
        if self._communicator.rank == 0:
            self._warn_of(written.unequal())
        return self.manifest_path

    def abandon(self) -> None:
        """Delete what this rank has written, for it will not be committed; needs no other rank.

        Where another save has committed a checkpoint of that name meanwhile, it stays.
        """
        if self._written is not None and not self.manifest_path.exists():
            with suppress(OSError):
                self.path.unlink()

    def writes(self, name: str) -> bool:
        """Return whether this rank writes its slice of a tensor that it holds."""
        replica = self._writers.get(name)
        return replica is None or self._layouts[name].replica(self._communicator.rank) == replica

    @property
    def manifest_path(self) -> Path:
        """The file that makes it a checkpoint."""
        return self._folder / f"{self.name}{MANIFEST_SUFFIX}"

    def _check_new(self) -> None:
        if self.manifest_path.is_file():
            raise CheckpointError(
                f"{self._folder}: checkpoint {self.name} is complete already; use another folder or prefix, or delete "
                "that"
            )

    def _fingerprints(self) -> NDArray[np.uint64]:
        described = {
            "prefix, epoch or step": self._identity,
            "layout of a tensor": _told(self._layouts),
            "training": self._training,
            "remove_redundancy": bool(self._writers),
            "places of shards": [self._places.format, *self._places.folders],
        }
        try:
            texts = [json.dumps(described[what], sort_keys=True, allow_nan=False) for what in _ALIKE]
        except (TypeError, ValueError) as error:
            raise CheckpointError(
                f"training: {error}; give numbers, texts, lists and objects that JSON knows"
            ) from error
        return np.array([xxhash.xxh3_64_intdigest(text.encode(errors="surrogatepass")) for text in texts], np.uint64)

    def _check_same(self, fingerprints: NDArray[np.uint64]) -> None:
        gathered = np.zeros((self._communicator.size, len(_ALIKE)), np.uint64)
        self._communicator.all_gather(fingerprints, gathered)
        differs = gathered != gathered[0]
        others = np.flatnonzero(differs.any(axis=1)).tolist()
        if others:
            what = " and another ".join(name for name, found in zip(_ALIKE, differs.any(axis=0), strict=True) if found)
            raise CheckpointError(
                f"ranks {others} save another {what} than rank 0; give all the same (training: seeds, data, optimizer)"
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

    def _manifest(self, written: WrittenShards) -> Manifest:
        files = {str(path.relative_to(self._folder)): file_digest(path) for path in self._companions}
        entries = written.shards(self.name)
        return Manifest(*self._identity, written.tensors(), entries, self._training, commit_time(self._folder), files)

    def _warn_of(self, unequal: Sequence[str]) -> None:
        """Say where ranks that should hold the same do not: one of them only can be loaded."""
        if unequal:
            shown = ", ".join(islice(unequal, 4)) + (f" and {len(unequal) - 4} more" if len(unequal) > 4 else "")
            warnings.warn(
                f"{self._folder}: checkpoint {self.name}: slices that should be equal are not: {shown}; the first is "
                "what will be loaded. Ranks have drifted apart: look for a step that they do not do alike",
                stacklevel=4,
            )


def _told(layouts: Mapping[str, Layout]) -> list[Any]:
    """Return layouts as JSON values: those that differ, and which of them each tensor has."""
    distinct: dict[Layout, int] = {}
    which = [(name, distinct.setdefault(layout.canonical, len(distinct))) for name, layout in layouts.items()]
    return [[saved_layout_to_json(layout) for layout in distinct], which]


def file_digest(path: Path) -> str:
    """Return the XXH3-128 of a small file, as 32 hexadecimal digits."""
    return xxhash.xxh3_128_hexdigest(read_regular(path, _MOST_COMPANION_BYTES))


def writers(layouts: Mapping[str, Layout]) -> dict[str, int]:
    """Return which replica of each tensor is written where one is enough, so that all ranks write about equally much.

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
