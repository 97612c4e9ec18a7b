"""A checkpoint to damage: 8 ranks, model parallel 2, optimizer shards of 2, each slice on two ranks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.manifest_entries import ShardEntry, TensorEntry
from mpiparallel.checkpoint.saving import save_shards
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

RANKS = 8
_DEVICES = DeviceMatrix((2, 2, 2))
# On which other rank each slice of a rank is, with the same optimizer shard.
TWIN = {rank: (rank + 4) % RANKS for rank in range(RANKS)}
LAYOUTS = {
    "net.w": Layout((12, 10), _DEVICES, ((), (2,)), optimizer_axes=(1,)),
    "net.b": Layout((9,), _DEVICES, ((2,),), optimizer_axes=(1,)),
    "moment1.net.w": Layout((12, 10), _DEVICES, ((2,), ()), optimizer_axes=(1,)),
    "table": Layout((96, 512), _DEVICES, ((2, 1), ())),
    "empty": Layout((0, 4), _DEVICES, ((2,), ()), optimizer_axes=(1,)),
}
DTYPES = {"net.b": "f8", "table": "f2"}


def whole(name: str, step: int, layouts: Mapping[str, Layout] = LAYOUTS) -> NDArray[Any]:
    """Return a tensor of the state of a step: its elements, counted from the step."""
    shape = layouts[name].global_shape
    return (np.arange(int(np.prod(shape))).reshape(shape) % 1000 + step).astype(DTYPES.get(name, "f4"))


def held(name: str, step: int, rank: int, layouts: Mapping[str, Layout] = LAYOUTS) -> NDArray[Any]:
    """Return what a rank holds of a tensor."""
    box = layouts[name].box(rank)
    return whole(name, step, layouts)[tuple(map(slice, box.start, box.stop))]


def save(
    folder: Path, step: int = 77, layouts: Mapping[str, Layout] = LAYOUTS, changed: Any = None, **options: Any
) -> Manifest:
    """Save the state of a step; ``changed`` gives arrays of a rank that are others: ``{rank: {name: array}}``."""

    def save_rank(communicator: Communicator) -> Path:
        rank = communicator.rank
        arrays = {name: held(name, step, rank, layouts) for name in layouts if rank in layouts[name].devices}
        arrays |= (changed or {}).get(rank, {})
        return save_shards(folder, "net", 1, step, arrays, layouts, communicator, {"seed": 5}, **options)

    size = 1 + max(max(layout.devices.members) for layout in layouts.values())
    return Manifest.load(run_world(size, save_rank)[0])


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def flip(path: Path, place: float | int) -> None:
    """Flip one bit: at a byte, or at a share of the length."""
    content = bytearray(path.read_bytes())
    content[int(place * len(content)) if isinstance(place, float) else place] ^= 1
    path.write_bytes(content)


def announced(folder: Path, nbytes: int) -> Manifest:
    """Commit a checkpoint whose manifest alone is there: of one rank, with one tensor of so many bytes."""
    layout = Layout((nbytes,), DeviceMatrix((1,)), ((),))
    shard = ShardEntry("rank_0/net-1_77.h5", nbytes, "0" * 32, {"w": "0" * 16})
    manifest = Manifest("net", 1, 77, {"w": TensorEntry(layout, "|u1")}, (shard,))
    manifest.write(folder)
    return manifest
