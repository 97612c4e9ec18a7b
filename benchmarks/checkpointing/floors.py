"""What no method can beat: plain system calls with the same bytes, to and from memory that is there."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from checkpointing.methods import RAW, RAW_NEW, Task, warm
from checkpointing.states import Arrays, arrays_of
from numpy.typing import NDArray

from mpiparallel.checkpoint.saving import writers
from mpiparallel.layout.layout import Layout


class RawWrite:
    """``pwrite`` of each array after the other to a new file, ``fsync``, rename."""

    def __init__(self, task: Task) -> None:
        self._file = task.folder_of(RAW) / str(task.rank)
        self._arrays = list(written_by(task, arrays_of(task.saved, task.rank)).values())

    def run(self) -> None:
        write_raw(self._file, self._arrays)

    def difference(self) -> str:
        return ""

    def reset(self) -> None:
        pass

    def close(self) -> None:
        pass


class RawRead:
    """``preadv`` of as many bytes as this rank wants, from a file of its own that has nothing else."""

    def __init__(self, task: Task, name: str, renewed: bool) -> None:
        self._file = task.folder_of(name) / str(task.rank)
        self._layouts, self._rank, self._renewed = task.wanted, task.rank, renewed
        self._file.parent.mkdir(parents=True, exist_ok=True)
        write_raw(self._file, arrays_of(self._layouts, task.rank).values())
        self._arrays: Arrays = {} if renewed else warm(self._layouts, task.rank)

    def run(self) -> None:
        if self._renewed:
            self._arrays = {name: np.empty(layout.local_shape(self._rank), np.float32) for name, layout in self._named}
        descriptor, offset = os.open(self._file, os.O_RDONLY), 0
        for array in self._arrays.values():
            content = bytes_of(array)
            while content.nbytes:
                count = os.preadv(descriptor, [content], offset)
                content, offset = content[count:], offset + count
        os.close(descriptor)

    @property
    def _named(self) -> Iterable[tuple[str, Layout]]:
        return self._layouts.items()

    def difference(self) -> str:
        return ""

    def reset(self) -> None:
        if self._renewed:
            self._arrays = {}
            give_back()

    def close(self) -> None:
        self._file.unlink(missing_ok=True)


def written_by(task: Task, arrays: Arrays) -> Arrays:
    """Return the arrays that a rank writes: what it holds, or its share of a state that all ranks hold."""
    if task.source != "whole":
        return arrays
    chosen = writers(task.saved)
    return {name: array for name, array in arrays.items() if task.saved[name].replica(task.rank) == chosen[name]}


def write_raw(path: Path, arrays: Iterable[NDArray[Any]]) -> None:
    """Write arrays one after the other to a new file that is on disk when this returns."""
    partial_path = path.with_name(f".{path.name}")
    descriptor, offset = os.open(partial_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), 0
    for array in arrays:
        content = bytes_of(array)
        while content.nbytes:
            count = os.pwrite(descriptor, content, offset)
            content, offset = content[count:], offset + count
    os.fsync(descriptor)
    os.close(descriptor)
    partial_path.replace(path)


def give_back() -> None:
    """Give memory that was freed back to the kernel, so that what is made next is new."""
    ctypes.CDLL(None).malloc_trim(0)


def bytes_of(array: NDArray[Any]) -> memoryview:
    """Return the bytes of a contiguous array."""
    return array.reshape(-1).view(np.uint8).data


raw_read = partial(RawRead, name=RAW, renewed=False)
raw_read_new = partial(RawRead, name=RAW_NEW, renewed=True)
