"""PyTorch's distributed checkpoint over gloo, and safetensors; the same tensors, cut the same way."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed
import torch.distributed.checkpoint
from checkpointing.methods import DCP, SAFETENSORS, SAFETENSORS_SYNCED, Task, warm
from checkpointing.states import Arrays, arrays_of, difference
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from mpiparallel.checkpoint.saving import writers
from mpiparallel.layout.layout import Layout


class DcpSave:
    """``torch.distributed.checkpoint.save`` of DTensors; it syncs its files, and writes what all hold once."""

    def __init__(self, task: Task) -> None:
        start_gloo(task)
        self._folder = task.folder_of(DCP)
        self._state = distributed(task.saved, arrays_of(task.saved, task.rank))

    def run(self) -> None:
        torch.distributed.checkpoint.save(self._state, checkpoint_id=self._folder)

    def difference(self) -> str:
        return ""


class DcpLoad:
    """``torch.distributed.checkpoint.load`` into DTensors that are there."""

    def __init__(self, task: Task) -> None:
        start_gloo(task)
        self._folder, self._task = task.folder_of(DCP), task
        self._arrays = warm(task.wanted, task.rank)
        self._state = distributed(task.wanted, self._arrays)

    def run(self) -> None:
        torch.distributed.checkpoint.load(self._state, checkpoint_id=self._folder)

    def difference(self) -> str:
        return difference(self._task.wanted, self._task.rank, self._arrays)


class SafetensorsSave:
    """``save_file`` of what this rank writes; not on disk yet when it returns, unless ``synced``."""

    def __init__(self, task: Task, name: str, synced: bool) -> None:
        self._path, self._synced = task.folder_of(name) / f"{task.rank}.safetensors", synced
        arrays, layouts = arrays_of(task.saved, task.rank), task.saved
        if task.source == "whole":
            chosen = writers(layouts)
            arrays = {name: array for name, array in arrays.items() if layouts[name].replica(task.rank) == chosen[name]}
        self._arrays = arrays

    def run(self) -> None:
        save_file(self._arrays, self._path)
        if self._synced:
            descriptor = os.open(self._path, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)

    def difference(self) -> str:
        return ""


class SafetensorsLoad:
    """``load_file`` of the rank's own file where it has all that is wanted, else slices of those of all ranks."""

    def __init__(self, task: Task) -> None:
        self._folder, self._task = task.folder_of(SAFETENSORS), task
        self._saved, self._wanted = task.saved, task.wanted
        self._arrays: Arrays = {}

    def run(self) -> None:
        self._arrays = {}
        if self._saved == self._wanted and self._task.source != "whole":
            self._arrays = load_file(self._file(self._task.rank))
            return
        for rank in range(self._task.saved_ranks):
            with safe_open(self._file(rank), "np") as file:
                for name in file.keys():  # noqa: SIM118 - it is no mapping
                    self._take(name, rank, file)

    def difference(self) -> str:
        return difference(self._wanted, self._task.rank, self._arrays)

    def _file(self, rank: int) -> Path:
        return self._folder / f"{rank}.safetensors"

    def _take(self, name: str, rank: int, file: Any) -> None:
        held, box = self._saved[name].box(rank), self._wanted[name].box(self._task.rank)
        shared = held.intersection(box)
        if shared is None:
            return
        if held == box:
            self._arrays[name] = file.get_tensor(name)
            return
        if name not in self._arrays:
            self._arrays[name] = np.empty(box.shape, np.float32)
        self._arrays[name][shared.within(box)] = file.get_slice(name)[shared.within(held)]


def start_gloo(task: Task) -> None:
    """Let the peers of all ranks meet through a file."""
    if not torch.distributed.is_initialized():
        meeting = Path(task.meeting).resolve().as_uri()
        torch.distributed.init_process_group("gloo", meeting, rank=task.rank, world_size=task.ranks)


def distributed(layouts: Mapping[str, Layout], arrays: Arrays) -> dict[str, DTensor]:
    """Return DTensors over the memory of arrays."""
    mesh = DeviceMesh("cpu", list(range(next(iter(layouts.values())).devices.size)))
    made = {}
    for name, layout in layouts.items():
        cut = [dim for dim, axes in enumerate(layout.tensor_map) if axes]
        shape = torch.Size(layout.global_shape)
        made[name] = DTensor.from_local(
            torch.from_numpy(arrays[name]),
            mesh,
            [Shard(cut[0]) if cut else Replicate()],
            run_check=False,
            shape=shape,
            stride=torch.empty(shape, device="meta").stride(),
        )
    return made


SAVERS = {
    DCP: DcpSave,
    SAFETENSORS: partial(SafetensorsSave, name=SAFETENSORS, synced=False),
    SAFETENSORS_SYNCED: partial(SafetensorsSave, name=SAFETENSORS_SYNCED, synced=True),
}
LOADERS = {DCP: DcpLoad, SAFETENSORS: SafetensorsLoad}
