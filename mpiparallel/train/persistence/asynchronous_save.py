"""A checkpoint that a thread writes while the ranks train on."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.checkpoint.saving import ShardSave
from mpiparallel.communication.agreement import failing_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import CheckpointError, MpiParallelError
from mpiparallel.train.persistence.background_write import BackgroundWrite

Arrays = Mapping[str, NDArray[Any]]


class AsynchronousSave:
    """Saves one state at a time: ``start`` copies it, a thread writes the copy, and ``commit`` ends it on all ranks.

    The copy lies in buffers that are kept for the next one.
    """

    def __init__(self) -> None:
        self._buffers: dict[str, NDArray[Any]] = {}
        self._save: ShardSave | None = None
        self._writing: BackgroundWrite | None = None

    @property
    def is_writing(self) -> bool:
        """Whether the thread of this rank still writes."""
        return self._writing is not None and self._writing.is_running

    def start(self, save: ShardSave, arrays: Arrays) -> None:
        """Copy the arrays of this rank, as far as it writes them, and write them in a thread."""
        self._save = save
        try:
            copied = self._copied({name: array for name, array in arrays.items() if save.writes(name)})
        except MemoryError as error:
            # The other ranks are told when they commit.
            self._writing = BackgroundWrite(partial(_fail, error), "checkpoint")
            return
        self._writing = BackgroundWrite(partial(save.write, copied), f"checkpoint {save.name}")

    def commit(self, communicator: Communicator) -> Path:
        """Wait for the thread, commit together with the other ranks, and return the path of the manifest.

        Raises CheckpointError on all ranks if writing has failed on any; then nothing of it is left.
        """
        save, writing, self._save, self._writing = self._save, self._writing, None, None
        if save is None or writing is None:
            raise CheckpointError("no save was started, so that there is none to commit")
        try:
            with failing_together(communicator, CheckpointError):
                writing.wait()
        except CheckpointError:
            save.abandon()
            raise
        return save.commit()

    def abandon(self) -> None:
        """Wait for the thread and delete what it has written; needs no other rank."""
        save, writing, self._save, self._writing = self._save, self._writing, None, None
        if writing is not None:
            with suppress(MpiParallelError, OSError, MemoryError):
                writing.wait()
        if save is not None:
            save.abandon()

    def _copied(self, arrays: Arrays) -> dict[str, NDArray[Any]]:
        kept = {name: buffer for name, buffer in self._buffers.items() if name in arrays}
        self._buffers = kept
        for name, array in arrays.items():
            buffer = kept.get(name)
            if buffer is None or buffer.shape != array.shape or buffer.dtype != array.dtype:
                kept[name] = buffer = np.empty(array.shape, array.dtype)
            np.copyto(buffer, array)
        return dict(kept)


def _fail(error: Exception) -> None:
    raise error
