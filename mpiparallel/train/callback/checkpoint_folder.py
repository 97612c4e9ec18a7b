"""The folder in which a training keeps its checkpoints: under which prefix, and which of them stay."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from mpiparallel.checkpoint.catalogue import CheckpointFiles, committed, remove, remove_files, uncommitted
from mpiparallel.checkpoint.files.folder_claim import FolderClaim
from mpiparallel.checkpoint.files.folder_holder import Holder
from mpiparallel.checkpoint.maintenance.pruning import beyond, too_close
from mpiparallel.checkpoint.manifest import MANIFEST_SUFFIX, Manifest
from mpiparallel.communication.agreement import failing_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.compatibility.remark import remark
from mpiparallel.errors import CheckpointError
from mpiparallel.train.object_collectives import all_gather_object, broadcast_object
from mpiparallel.train.persistence.rank_folders import DEFAULT_FOLDER, folder_of, rank_folders

_SECONDS_A_MINUTE = 60.0
_LOST_SUFFIX = ".lost"


class CheckpointFolder:
    """The folder and the prefix of a training in it: ``prefix``, or ``prefix_<number>`` where others have that.

    ``folders`` are those of the ranks below it where each has its own; empty where they are ``rank_<r>``.
    """

    def __init__(self, directory: str | Path | None, prefix: str) -> None:
        self._directory = directory
        self._is_placed = False
        self.path = folder_of(directory or DEFAULT_FOLDER)
        self.folders: tuple[str, ...] = ()
        self._prefix = prefix
        self._known: dict[str, CheckpointFiles] = {}
        self._claims: dict[Path, FolderClaim] = {}
        self._training = ""
        self.number = 0

    @property
    def prefix(self) -> str:
        """What the names of the checkpoints begin with."""
        return self._numbered(self.number)

    def is_that_of(self, other: CheckpointFolder) -> bool:
        """Return whether checkpoints get the same names in it as in another."""
        return self.prefix == other.prefix and self.path.resolve() == other.path.resolve()

    def place(self, communicator: Communicator) -> None:
        """Settle where all ranks save; they call it together, again when others train than before.

        A rank that joins takes the folder that the others have. Raises ConfigurationError on all ranks where their
        folders have none in common.
        """
        placed = rank_folders(self._directory, communicator, self.path if self._is_placed else None)
        self.path, self.folders = placed
        self._is_placed = True

    def claim(self, communicator: Communicator) -> None:
        """Keep the folder for this job, also where other ranks of it save from now on; all ranks call it together.

        Raises CheckpointError on all ranks where another job, which it names, saves there.
        """
        here = Holder.here()
        said = all_gather_object([self._training, here.training], communicator)
        self._training = next((training for training, _ in said if training), said[0][1])
        wanted = {self.path} if communicator.rank == 0 else set()
        if self.folders:
            wanted.add(self.path / self.folders[communicator.rank])
        for folder in self._claims.keys() - wanted:
            self._claims.pop(folder).release()
        holder = replace(here, training=self._training)
        for folder in sorted(wanted - self._claims.keys()):
            self._claims[folder] = FolderClaim(folder, holder)
        self.hold(communicator)

    def hold(self, communicator: Communicator) -> None:
        """See that the folder is still this job's; all ranks call it together.

        Raises CheckpointError on all ranks where another job has it.
        """
        with failing_together(communicator, CheckpointError):
            for claim in self._claims.values():
                # Where no mark can be written nothing can be saved either, and that says why.
                with suppress(OSError):
                    claim.hold()

    def release(self) -> None:
        """Give the folder back, as far as this rank has it; needs no other rank."""
        while self._claims:
            self._claims.popitem()[1].release()

    def take_unused(self, communicator: Communicator) -> None:
        """Take the lowest number with which no rank finds anything of the prefix but manifests without a shard."""
        self._set_lost_aside(communicator)
        number = np.zeros((), np.int64)
        own = self.folders[communicator.rank] if self.folders else f"rank_{communicator.rank}"
        names = [*_names(self.path), *_names(self.path / own)]
        while True:
            while any(_is_of(self._numbered(int(number)), name) for name in names):
                number += 1
            communicator.all_reduce(number, "max")
            if not communicator.any_true(any(_is_of(self._numbered(int(number)), name) for name in names)):
                break
        self.number = int(number)
        if self.number:
            remark(
                f"ModelCheckpoint: {self.path} has checkpoints {self._prefix!r} of an earlier training; those of this "
                f"one are called {self.prefix}-<epoch>_<step>"
            )

    def _set_lost_aside(self, communicator: Communicator) -> None:
        """Rename the manifests of the prefix whose shards are all gone, as a script leaves them that empties folders.

        Raises CheckpointError on all ranks if the folder cannot be read, or a manifest not renamed.
        """
        with failing_together(communicator, CheckpointError):
            if communicator.rank != 0 or not self.path.is_dir():
                return
            found = committed(self.path, None, {})
            lost = [one for one in found if self._number_of(one.prefix) is not None and one.is_lost(self.path)]
            for one in lost:
                manifest = self.path / f"{one.name}{MANIFEST_SUFFIX}"
                manifest.replace(f"{manifest}{_LOST_SUFFIX}")
        if lost:
            remark(
                f"ModelCheckpoint: {self.path} has {len(lost)} manifests of checkpoints {self._prefix!r} without a "
                f"shard; they are called *{MANIFEST_SUFFIX}{_LOST_SUFFIX} now, and their names are used again"
            )

    def _number_of(self, prefix: str) -> int | None:
        """Return the number of a prefix of this training or an earlier one; None for those of others."""
        match = re.fullmatch(rf"{re.escape(self._prefix)}(?:_([1-9][0-9]*))?", prefix)
        return None if match is None else int(match.group(1) or 0)

    def take_resumed(self, folder: Path, prefix: str) -> bool:
        """Go on under the prefix of a checkpoint if it is one of this folder's; return whether it is."""
        number = self._number_of(prefix)
        if number is None or folder.resolve() != self.path.resolve():
            return False
        self.number = number
        return True

    def has(self, name: str, step: int) -> bool:
        """Return whether a checkpoint of that name and step is committed; a damaged one counts as none."""
        path = self.path / f"{name}{MANIFEST_SUFFIX}"
        with suppress(CheckpointError):
            return path.exists() and Manifest.load(path).training.get("step") == step
        return False

    def companions(self, name: str, sources: Iterable[str]) -> dict[Path, Path]:
        """Return where those files that are there are to be copied beside a checkpoint: ``<name>.<their name>``."""
        there = (Path(source) for source in sources if source)
        return {self.path / f"{name}.{source.name}": source for source in there if source.is_file()}

    def discard(self, names: Iterable[str], communicator: Communicator) -> None:
        """Delete checkpoints: manifests first, on disk, so that no half of one counts; all ranks call it together.

        Raises CheckpointError on all ranks if a manifest cannot be deleted.
        """
        doomed = list(names)
        if not doomed:
            return
        with failing_together(communicator, CheckpointError):
            if communicator.rank == 0:
                remove(self.path, [self._files_of(name) for name in doomed], self.folders)
                for name in doomed:
                    self._known.pop(name, None)

    def take_committed(self, files: CheckpointFiles | None) -> None:
        """Know what this rank has committed here without reading it again."""
        if files is not None:
            self._known[files.name] = files

    def _files_of(self, name: str) -> CheckpointFiles:
        """Return a checkpoint by its files, as far as its manifest can be read, now or before."""
        if name not in self._known:
            with suppress(CheckpointError):
                return CheckpointFiles.of(Manifest.load(self.path / f"{name}{MANIFEST_SUFFIX}"))
        return self._known.get(name, CheckpointFiles(name, self.prefix, 0.0))

    def clear(self, communicator: Communicator) -> None:
        """Delete the shards of the prefix that no manifest names, as a killed training leaves them; all ranks call it.

        Raises CheckpointError on all ranks if the folder cannot be read.
        """
        with failing_together(communicator, CheckpointError):
            if communicator.rank == 0:
                remove_files(path for path in uncommitted(self.path) if _is_of(self.prefix, path.name))

    def prune(self, most: int, minutes: float, spared: Iterable[str], communicator: Communicator) -> None:
        """Delete all but the newest ``most`` of the prefix; with ``minutes``, all but one for each interval of these.

        The newest is never deleted; ``spared`` ones, and those that lack a file, do not count; they stay as long as any
        older checkpoint stays. All ranks call it together.
        """
        doomed: list[str] = []
        with failing_together(communicator, CheckpointError):
            if communicator.rank == 0:
                left_out = set(spared)
                found = [one for one in committed(self.path, self.prefix, self._known) if one.name not in left_out]
                beaten = (
                    too_close(self.path, found, minutes * _SECONDS_A_MINUTE)
                    if minutes
                    else beyond(self.path, found, max(most, 1))
                )
                doomed = [one.name for one in beaten]
        self.discard(broadcast_object(doomed, communicator), communicator)

    def _numbered(self, number: int) -> str:
        return f"{self._prefix}_{number}" if number else self._prefix


def _is_of(prefix: str, name: str) -> bool:
    return re.fullmatch(rf"{re.escape(prefix)}-[0-9]+_[0-9]+\.(h5|manifest\.json)", name) is not None


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError:
        return []
