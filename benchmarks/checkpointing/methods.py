"""What is measured, by name, and folders made ready for it; nothing here loads MPI or PyTorch."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from checkpointing.states import LOADS, STATES, Arrays, Shape, layouts_of

from mpiparallel.layout.layout import Layout

RAW = "raw"
RAW_NEW = "raw, new arrays"
OURS = "ours"
DCP = "PyTorch DCP"
SAFETENSORS = "safetensors"
SAFETENSORS_SYNCED = "safetensors, fsync"

COPY, START, COMMIT, WHOLE = "copy into warm memory", "start", "commit", "start and commit, nothing between"
STEP, STEP_BESIDE = "a step", "the slowest step beside it"

SAVERS = (RAW, OURS, DCP, SAFETENSORS, SAFETENSORS_SYNCED)
LOADERS = (RAW, RAW_NEW, OURS, DCP, SAFETENSORS)
# These run in a process of another environment beside each rank.
IN_PEER = frozenset((DCP, SAFETENSORS, SAFETENSORS_SYNCED))


class Unsuited(Exception):  # noqa: N818 - it is no error: a method says what it is not made for
    """A method cannot run here, for the reason given."""


class WrongResultError(RuntimeError):
    """A method has loaded other numbers than were saved."""


class Span(NamedTuple):
    """When something began and ended on one rank, by the clock of the host."""

    start: float
    end: float


class Method(Protocol):
    """A way to save or to load, made ready on one rank."""

    def run(self) -> Span | None:
        """Save or load once. The span, if it is told, is what counts, else the whole call."""

    def difference(self) -> str:
        """Return the name of a tensor that was loaded wrongly, or the empty text."""

    def reset(self) -> None:
        """Forget the last run; not timed."""

    def close(self) -> None:
        """Give back what it holds."""


@dataclass(frozen=True)
class Task:
    """One save, or one load of what was saved so, on one of ``ranks`` ranks.

    Files lie in ``folder``; ``meeting`` is a path that only this job has.
    """

    state: str
    mebibytes: int
    source: str
    saved_ranks: int
    load: str
    rank: int
    ranks: int
    folder: str
    meeting: str

    @property
    def shapes(self) -> Mapping[str, Shape]:
        """Shape of each tensor."""
        return STATES[self.state].shapes(self.mebibytes)

    @property
    def saved(self) -> Mapping[str, Layout]:
        """How the state lies on the ranks that save it."""
        return layouts_of(self.shapes, self.source, self.saved_ranks)

    @property
    def wanted(self) -> Mapping[str, Layout]:
        """How the ranks want it that load it."""
        return layouts_of(self.shapes, LOADS[self.load].target, self.ranks)

    def folder_of(self, method: str) -> Path:
        """Return where a method has its files."""
        return Path(self.folder) / "".join(letter if letter.isalnum() else "_" for letter in method)


def warm(layouts: Mapping[str, Layout], rank: int) -> Arrays:
    """Return arrays to load into, every page of which has been touched."""
    import numpy as np

    return {name: np.full(layout.local_shape(rank), np.nan, np.float32) for name, layout in layouts.items()}


def task_of(job: Mapping[str, Any], rank: int, ranks: int) -> Task:
    """Return the task of a rank in a job."""
    names = ("state", "mebibytes", "source", "saved_ranks", "load")
    meeting = str(Path(job["folder"]) / "gloo")
    return Task(rank=rank, ranks=ranks, folder=job["place"], meeting=meeting, **{name: job[name] for name in names})


def clear(folder: Path) -> None:
    """Let a folder be empty, and let the disk be done with all that came before, so that it does not count."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.sync()


def forget(folder: Path) -> None:
    """Let the kernel forget what it has read of the files in a folder; where files lie in memory nothing happens."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
