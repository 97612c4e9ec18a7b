"""The checkpoints that docs/training/checkpoints.md shows: a decoder on 8 ranks, data parallel 4, model parallel 2."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np

from mpiparallel.checkpoint.saving import save_shards
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

_DEVICES = DeviceMatrix((2, 2, 2))
_WEIGHTS = {
    "decoder.query": Layout((128, 128), _DEVICES, ((), (2,))),
    "decoder.output": Layout((128, 128), _DEVICES, ((2,), ())),
    "decoder.gamma": Layout((128,), _DEVICES, ((),)),
    "embedding.table": Layout((2400, 128), _DEVICES, ((2,), ())),
}
_MOMENTS = {
    f"moment1.{name}": Layout(layout.global_shape, _DEVICES, layout.tensor_map, optimizer_axes=(1,))
    for name, layout in _WEIGHTS.items()
}
_LAYOUTS = _WEIGHTS | _MOMENTS


def save_decoder(folder: Path) -> None:
    """Save the steps 77 and 154 of epoch 1 with weights of deviation 0.05."""
    for step in (77, 154):
        run_world(8, lambda communicator, step=step: _save_rank(folder, step, communicator))


def _save_rank(folder: Path, step: int, communicator: Communicator) -> None:
    arrays = {}
    for name, layout in _LAYOUTS.items():
        box = layout.box(communicator.rank)
        whole = np.random.default_rng(zlib.crc32(name.encode()) + step).normal(0.0, 0.05, layout.global_shape)
        arrays[name] = whole[tuple(map(slice, box.start, box.stop))].astype(np.float32)
    training = {"seed": 5, "position": step}
    save_shards(folder, "net", 1, step, arrays, _LAYOUTS, communicator, training)
