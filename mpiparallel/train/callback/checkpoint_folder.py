"""The folder in which a training keeps its checkpoints: under which prefix, and which of them stay."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mpiparallel.checkpoint.catalogue import remove_files, uncommitted
from mpiparallel.checkpoint.durable_file import sync_folder
from mpiparallel.checkpoint.manifest import MANIFEST_SUFFIX, Manifest
from mpiparallel.communication.agreement import failing_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import CheckpointError, ConfigurationError
from mpiparallel.train.announcement import announced, world_or_alone

_SECONDS_A_MINUTE = 60.0
_FOLDER_BYTES = 1024


def folder_of(directory: str | Path) -> Path:
    """Return the folder of the checkpoints of all ranks: one named after the rank means the folder above it.

    >>> folder_of("checkpoints/rank_0").name
    'checkpoints'
    """
    path = Path(directory)
    return path.parent if path.name == f"rank_{world_or_alone().rank}" else path


class _Known(NamedTuple):
    """When a checkpoint was committed, the paths and lengths of its shards, and the files that accompany it."""

    saved: float
    shards: tuple[tuple[Path, int], ...]
    companions: tuple[Path, ...]

    @classmethod
    def of(cls, folder: Path, manifest: Manifest) -> _Known:
        shards = (shard for shard in manifest.shards if shard is not None)
        beside = (file for file in manifest.files if file.startswith(f"{manifest.name}.") and "/" not in file)
        return cls(
            manifest.saved,
            tuple((folder / shard.file, shard.size) for shard in shards),
            tuple(folder / file for file in beside),
        )


class CheckpointFolder:
    """The folder and the prefix of a training in it: ``prefix``, or ``prefix_<number>`` where others have that."""

    def __init__(self, directory: str | Path, prefix: str) -> None:
        self.path = folder_of(directory)
        self._prefix = prefix
        self._known: dict[str, _Known] = {}
        self.number = 0

    @property
    def prefix(self) -> str:
        """What the names of the checkpoints begin with."""
        return self._numbered(self.number)

    def is_that_of(self, other: CheckpointFolder) -> bool:
        """Return whether checkpoints get the same names in it as in another."""
        return self.prefix == other.prefix and self.path.resolve() == other.path.resolve()

    def check_same(self, communicator: Communicator) -> None:
        """Raise ConfigurationError, on all ranks, unless all save in the same folder."""
        folders = np.zeros((communicator.size, _FOLDER_BYTES), np.uint8)
        own = np.zeros(_FOLDER_BYTES, np.uint8)
        # Programs may be started in a folder for each rank.
        name = str(self.path.absolute()).encode(errors="replace")[-_FOLDER_BYTES:]
        own[: len(name)] = np.frombuffer(name, np.uint8)
        communicator.all_gather(own, folders)
        others = np.flatnonzero((folders != folders[0]).any(axis=1)).tolist()
        if others:
            first, other = (folders[rank].tobytes().rstrip(b"\0").decode(errors="replace") for rank in (0, others[0]))
            raise ConfigurationError(
                f"ModelCheckpoint: rank 0 saves in {first}, rank {others[0]} in {other}; give all ranks the same "
                "directory: each makes a folder rank_<r> in it"
            )

    def take_unused(self, communicator: Communicator) -> None:
        """Take the lowest number with which no rank finds anything of the prefix."""
        number = np.zeros((), np.int64)
        names = [*_names(self.path), *_names(self.path / f"rank_{communicator.rank}")]
        while True:
            while any(_is_of(self._numbered(int(number)), name) for name in names):
                number += 1
            communicator.all_reduce(number, "max")
            if not communicator.any_true(any(_is_of(self._numbered(int(number)), name) for name in names)):
                break
        self.number = int(number)

    def take_resumed(self, folder: Path, prefix: str) -> bool:
        """Go on under the prefix of a checkpoint if it is one of this folder's; return whether it is."""
        match = re.fullmatch(rf"{re.escape(self._prefix)}(?:_([1-9][0-9]*))?", prefix)
        if match is None or folder.resolve() != self.path.resolve():
            return False
        self.number = int(match.group(1) or 0)
        return True

    def step_of(self, name: str) -> int | None:
        """Return the step that a committed checkpoint is of; None where there is none of that name."""
        path = self.path / f"{name}{MANIFEST_SUFFIX}"
        if not path.exists():
            return None
        try:
            step = Manifest.load(path).training.get("step")
        except CheckpointError:
            return -1
        return step if type(step) is int else -1

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
                files = [path for name in doomed for path in self._files_of(name)]
                for name in doomed:
                    self._known.pop(name, None)
                    (self.path / f"{name}{MANIFEST_SUFFIX}").unlink(missing_ok=True)
                sync_folder(self.path)
                remove_files(files)

    def _files_of(self, name: str) -> list[Path]:
        """Return the shards of a checkpoint, and the files that accompany it; not through a link, to anywhere.

        What a user has put beside it is left alone, though it be named alike.
        """
        with suppress(CheckpointError):
            self._known.setdefault(name, _Known.of(self.path, Manifest.load(self.path / f"{name}{MANIFEST_SUFFIX}")))
        found = self._known[name].companions if name in self._known else ()
        folders = (path for path in self.path.glob("rank_*") if path.is_dir() and not path.is_symlink())
        return [*found, *(path / f"{name}.h5" for path in folders)]

    def clear(self, communicator: Communicator) -> None:
        """Delete the shards of the prefix that no manifest names, as a killed training leaves them; all ranks call it.

        Raises CheckpointError on all ranks if the folder cannot be read.
        """
        with failing_together(communicator, CheckpointError):
            if communicator.rank == 0:
                remove_files(path for path in uncommitted(self.path) if _is_of(self.prefix, path.name))

    def prune(self, most: int, minutes: float, spared: Iterable[str], communicator: Communicator) -> None:
        """Delete all but the newest ``most`` of the prefix, or with ``minutes`` all but one for each so many.

        The newest is never deleted; ``spared``, and those that lack a file, do not count, and stay as long as one that
        is older. All ranks call it together.
        """
        doomed: list[str] = []
        with failing_together(communicator, CheckpointError):
            if communicator.rank == 0:
                kept = [(saved, name) for saved, name in self._committed() if name not in set(spared)]
                doomed = self._too_close(kept, minutes) if minutes else self._beyond(kept, max(most, 1))
        self.discard(announced(doomed, communicator), communicator)

    def _beyond(self, kept: list[tuple[float, str]], most: int) -> list[str]:
        """Return those that are older than the newest ``most`` whole ones."""
        doomed, whole = [], 0
        for _, name in reversed(kept):
            if whole == most:
                doomed.append(name)
            else:
                whole += self._is_whole(name)
        return doomed

    def _too_close(self, kept: list[tuple[float, str]], minutes: float) -> list[str]:
        """Return those that follow another whole one that stays by less than so many minutes, the newest left out."""
        doomed, last = [], -np.inf
        for saved, name in kept[:-1]:
            if saved - last < minutes * _SECONDS_A_MINUTE:
                doomed.append(name)
            elif self._is_whole(name):
                last = saved
        return doomed

    def _is_whole(self, name: str) -> bool:
        return all(path.is_file() and path.stat().st_size == size for path, size in self._known[name].shards)

    def _committed(self) -> list[tuple[float, str]]:
        """Return when each checkpoint of the prefix was committed, and its name, the oldest first.

        Those whose manifest cannot be read are left out: it may be restored.
        """
        found = []
        for file in _names(self.path):
            if file.endswith(MANIFEST_SUFFIX) and _is_of(self.prefix, file):
                name = file.removesuffix(MANIFEST_SUFFIX)
                if name not in self._known:
                    with suppress(CheckpointError):
                        self._known[name] = _Known.of(self.path, Manifest.load(self.path / file))
                found += [(self._known[name].saved, name)] if name in self._known else []
        return sorted(found)

    def _numbered(self, number: int) -> str:
        return f"{self._prefix}_{number}" if number else self._prefix


def _is_of(prefix: str, name: str) -> bool:
    return re.fullmatch(rf"{re.escape(prefix)}-[0-9]+_[0-9]+\.(h5|manifest\.json)", name) is not None


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError:
        return []
