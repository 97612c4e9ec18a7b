"""A checkpoint written anew for other ranks or another strategy, as a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.catalogue import commit_time, find
from mpiparallel.checkpoint.files.meter import Meter, Progress
from mpiparallel.checkpoint.manifest import MANIFEST_SUFFIX, Manifest
from mpiparallel.checkpoint.manifest_entries import ShardEntry, TensorEntry, shard_file
from mpiparallel.checkpoint.rank_shard import write_rank_shard
from mpiparallel.checkpoint.saving import writers
from mpiparallel.checkpoint.stored_state import StoredState
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.layout import Layout

Layouts = Mapping[str, Layout]


def transform_checkpoint(
    source: str | Path,
    target_folder: str | Path,
    layouts: Layouts,
    progress: Progress | None = None,
    remove_redundancy: bool = False,
) -> Path:
    """Write the checkpoint ``source`` to ``target_folder``, cut by ``layouts``, and return the path of its manifest.

    It keeps its name and what it says of the training. ``layouts`` are over ranks 0, 1, ... and name each tensor of the
    checkpoint. One slice is in memory at a time; slices that are lost are read from replicas. The manifest comes last:
    until then, killed or failed, there is no checkpoint of that name. With ``remove_redundancy`` a slice that several
    ranks hold is written for one of them. Raises ``CheckpointError``.
    """
    folder, manifest = find(source)
    target = Path(target_folder)
    _check(folder, manifest, target, layouts)
    size = 1 + max(max(layout.devices.members) for layout in layouts.values())
    chosen = writers(layouts) if remove_redundancy else {}
    owned = [
        {
            name: TensorSpec(layout.local_shape(rank), np.dtype(manifest.tensors[name].dtype))
            for name, layout in sorted(layouts.items())
            if rank in layout.devices and chosen.get(name) in (None, layout.replica(rank))
        }
        for rank in range(size)
    ]
    meter = Meter(sum(info.byte_count for infos in owned for info in infos.values()), progress)
    shards: list[ShardEntry | None] = []
    with StoredState.of_manifest(folder, manifest) as state:
        for rank, infos in enumerate(owned):
            shards.append(_write(state, target, manifest, rank, infos, layouts, meter) if infos else None)
    tensors = {
        name: TensorEntry(layouts[name].canonical, manifest.tensors[name].dtype) for name in sorted(manifest.tensors)
    }
    identity = manifest.prefix, manifest.epoch, manifest.step
    return Manifest(*identity, tensors, tuple(shards), manifest.training, commit_time(target)).write(target)


def _check(folder: Path, manifest: Manifest, target: Path, layouts: Layouts) -> None:
    subject = f"{folder}: checkpoint {manifest.name}"
    if not manifest.tensors:
        raise CheckpointError(f"{subject} has no tensors; name another")
    missing = sorted(manifest.tensors.keys() - layouts.keys())
    if missing or layouts.keys() - manifest.tensors.keys():
        raise CheckpointError(
            f"{subject}: tensors without a target layout: {missing[:8]}, layouts without a tensor: "
            f"{sorted(layouts.keys() - manifest.tensors.keys())[:8]}; use the strategy of this network"
        )
    for name, entry in manifest.tensors.items():
        if entry.layout.global_shape != layouts[name].global_shape:
            raise CheckpointError(
                f'{subject}: tensor "{name}" has shape {entry.layout.global_shape}, its target layout is for '
                f"{layouts[name].global_shape}; use the strategy of this network"
            )
    if (target / f"{manifest.name}{MANIFEST_SUFFIX}").exists():
        raise CheckpointError(f"{target}: has a checkpoint {manifest.name} already; name another folder")


def _write(
    state: StoredState,
    target: Path,
    manifest: Manifest,
    rank: int,
    infos: Mapping[str, TensorSpec],
    layouts: Layouts,
    meter: Meter,
) -> ShardEntry:
    identity = manifest.prefix, manifest.epoch, manifest.step
    written = write_rank_shard(target, identity, rank, infos, _slices(state, rank, infos, layouts, meter))
    return ShardEntry(shard_file(manifest.name, rank), written.size, written.digest, written.arrays)


def _slices(
    state: StoredState, rank: int, infos: Mapping[str, TensorSpec], layouts: Layouts, meter: Meter
) -> Iterator[tuple[str, NDArray[Any]]]:
    for name, info in infos.items():
        try:
            array = state.read_box(name, layouts[name].box(rank))
        except MemoryError as error:
            raise CheckpointError(
                f'tensor "{name}": the slice of rank {rank} needs {info.byte_count} bytes of memory; cut it over more '
                "ranks"
            ) from error
        yield name, array
        del array
        meter.add(info.byte_count)
