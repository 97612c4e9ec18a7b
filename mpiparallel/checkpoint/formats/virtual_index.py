"""An HDF5 file in which the shards of a checkpoint appear as whole tensors, for h5py, HDFView and their like.

It holds no data of its own but tensors without a dim, and mpiparallel never reads it. HDF5 looks for the shards by
their paths relative to it, and compares no digests. For shards that are gone it shows NaN, or 0 where there is no NaN.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.files.durable_file import write_at
from mpiparallel.checkpoint.files.regular_file import check_folder
from mpiparallel.checkpoint.formats.array_stream import replacing_with
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.manifest_entries import ShardEntry
from mpiparallel.checkpoint.shard.index import ArrayLocation
from mpiparallel.checkpoint.shard.reader import open_shard
from mpiparallel.checkpoint.shard.virtual_skeleton import VirtualSource, VirtualTensor, lay_out_virtual
from mpiparallel.checkpoint.stored_state import StoredState
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.box import Box
from mpiparallel.layout.layout import Layout


class _Shard(NamedTuple):
    """What an index must know of a shard: its file, where each array is, and how long the shared datasets are."""

    file: str
    places: Mapping[str, ArrayLocation]
    lengths: Mapping[str, int]


def write_virtual_index(folder: str | Path, manifest: Manifest, path: str | Path | None = None) -> Path:
    """Write an HDF5 file in which each tensor of a checkpoint is one dataset, and return its path.

    By default that is ``<name>.virtual.h5`` in the checkpoint's ``folder``. The names are those in the shards: ``/`` is
    ``%2F``. Where several ranks have a slice the first whose shard can be opened is taken. Raises ``CheckpointError``
    for slices that no shard has, and where the file cannot be written.

    >>> import h5py
    >>> import numpy as np
    >>> from tempfile import TemporaryDirectory
    >>> from mpiparallel.checkpoint.saving import save_shards
    >>> from mpiparallel.communication.threads import run_world
    >>> from mpiparallel.layout.device_matrix import DeviceMatrix
    >>> rows = {"w": Layout((4, 2), DeviceMatrix((2,)), ((0,), ()))}
    >>> with TemporaryDirectory() as folder:
    ...     def save(world):
    ...         return save_shards(folder, "net", 1, 77, {"w": np.full((2, 2), world.rank)}, rows, world)
    ...     manifest = Manifest.load(run_world(2, save)[0])
    ...     with h5py.File(write_virtual_index(folder, manifest)) as file:
    ...         file["w"][:, 0].tolist()
    [0, 0, 1, 1]
    """
    root = Path(folder)
    target = root / f"{manifest.name}.virtual.h5" if path is None else Path(path)
    reasons: dict[int, str] = {}
    shards = {}
    for rank, entry in enumerate(manifest.shards):
        if entry is not None:
            try:
                shards[rank] = _shard(root, entry, target.parent)
            except (CheckpointError, OSError) as error:
                reasons[rank] = str(error)
    tensors = {}
    with StoredState.of_manifest(root, manifest) as state:
        for name, stored in state.tensors.items():
            info = TensorSpec(stored.layout.global_shape, stored.dtype)
            if not info.shape:
                tensors[name] = VirtualTensor(info, value=state.read_box(name, Box.whole(())))
            else:
                tensors[name] = VirtualTensor(info, _pieces(name, stored.layout, shards, reasons))
    content = lay_out_virtual(tensors, {"checkpoint": manifest.name, "epoch": manifest.epoch, "step": manifest.step})
    with replacing_with(target, len(content)) as descriptor:
        write_at(descriptor, memoryview(content), 0)
    return target


def _shard(root: Path, entry: ShardEntry, base: Path) -> _Shard:
    path = root / entry.file
    check_folder(path.parent)
    with open_shard(path, entry.digest) as shard:
        places = {name: shard.place(name) for name in shard.arrays}
        lengths: dict[str, int] = {}
        for name, place in places.items():
            lengths[place.dataset] = max(lengths.get(place.dataset, 0), place.first + shard.arrays[name].size)
    return _Shard(os.path.relpath(path, base), places, lengths)


def _pieces(name: str, layout: Layout, shards: Mapping[int, _Shard], reasons: Mapping[int, str]) -> list[VirtualSource]:
    pieces = []
    for parts in layout.parts_over(Box.whole(layout.global_shape)):
        ranks = [layout.rank_at(parts, replica) for replica in range(layout.replica_count)]
        holder = next((shards[rank] for rank in ranks if rank in shards and name in shards[rank].places), None)
        box = layout.box_of_parts(parts)
        if holder is None:
            why = "; ".join(reasons.get(rank, f"the shard of rank {rank} has no such array") for rank in ranks)
            raise CheckpointError(f'tensor "{name}", {box}: no shard has it ({why}); run mpiparallel ckpt recover')
        place = holder.places[name]
        shape = (holder.lengths[place.dataset],) if place.dataset.startswith("%") else box.shape
        pieces.append(VirtualSource(box, holder.file, place.dataset, shape, place.first))
    return pieces
