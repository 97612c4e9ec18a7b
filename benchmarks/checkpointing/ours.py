"""mpiparallel: whole calls, with all agreement, digests and the manifest."""

from __future__ import annotations

from checkpointing.floors import give_back
from checkpointing.methods import OURS, Task
from checkpointing.states import Arrays, arrays_of, difference

from mpiparallel.checkpoint.catalogue import newest
from mpiparallel.checkpoint.loading.load import load_state
from mpiparallel.checkpoint.saving import save_shards
from mpiparallel.checkpoint.stored_state import StoredState
from mpiparallel.communication import init, world

PREFIX = "net"


class Save:
    """``save_shards``; of a state that all ranks have each tensor is written once."""

    def __init__(self, task: Task) -> None:
        init()
        self._task, self._layouts = task, task.saved
        self._arrays = arrays_of(self._layouts, task.rank)

    def run(self) -> None:
        folder, once = self._task.folder_of(OURS), self._task.source == "whole"
        save_shards(folder, PREFIX, 1, 1, self._arrays, self._layouts, world.current(), {}, once)

    def difference(self) -> str:
        return ""

    def reset(self) -> None:
        pass

    def close(self) -> None:
        pass


class Load:
    """``load_state`` of the newest checkpoint, into new arrays."""

    def __init__(self, task: Task) -> None:
        init()
        self._folder, self._layouts, self._rank = task.folder_of(OURS), task.wanted, task.rank
        self._arrays: Arrays = {}

    def run(self) -> None:
        with StoredState.of_manifest(self._folder, newest(self._folder)) as state:
            self._arrays = load_state(state, self._layouts, world.current())

    def difference(self) -> str:
        return difference(self._layouts, self._rank, self._arrays)

    def reset(self) -> None:
        self._arrays = {}
        give_back()

    def close(self) -> None:
        self.reset()
