"""Saving and loading the state of all ranks: a shard for each, and a manifest once all of them are on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from mpiparallel.checkpoint.durable_file import PARTIAL_PREFIX, sync_folder
from mpiparallel.checkpoint.hdf5 import describe_shard, read_shard, write_shard
from mpiparallel.checkpoint.manifest import MANIFEST_NAME, Manifest, ShardEntry, TensorEntry, layout_to_json
from mpiparallel.communication.agreement import failing_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.layout import Layout


def shard_path(folder: str | Path, rank: int, prefix: str, epoch: int, step: int) -> Path:
    """Return the path of the shard of one rank. Raises ``CheckpointError`` if ``prefix`` cannot begin a file's name.

    >>> str(shard_path("saved", 3, "resnet", 1, 77))
    'saved/rank_3/resnet-1_77.h5'
    """
    if not prefix.isprintable() or "/" in prefix or prefix.startswith("."):
        raise CheckpointError(f"{prefix!r} cannot begin the name of a checkpoint; use letters, digits, - and _")
    return Path(folder) / f"rank_{rank}" / f"{prefix}-{epoch}_{step}.h5"


def save_shards(
    folder: str | Path,
    prefix: str,
    epoch: int,
    step: int,
    arrays: Mapping[str, NDArray[Any]],
    layouts: Mapping[str, Layout],
    communicator: Communicator,
    attributes: Mapping[str, str | int | float],
) -> Path:
    """Save what each rank holds, and return ``folder``; all ranks call it together.

    ``layouts`` are those of the whole state, the same on every rank; ``arrays`` those this rank has a box of;
    ``attributes`` may differ. When it returns, on any rank, the checkpoint is committed: all shards and the manifest
    are on disk. If anything fails on any rank, every rank raises ``CheckpointError`` that says where and why, and
    ``folder`` still holds the checkpoint that it held before.
    """
    folder, names = Path(folder), sorted(layouts)
    with failing_together(communicator, CheckpointError):
        path = shard_path(folder, communicator.rank, prefix, epoch, step)
        _check_state(arrays, layouts, communicator.rank)
        _check_replaceable(folder, path)
        described = [prefix, epoch, step, [(name, layout_to_json(layouts[name])) for name in names]]
        fingerprint = crc32(json.dumps(described).encode())
    _check_same(fingerprint, communicator)
    try:
        with failing_together(communicator, CheckpointError):
            _make_folder(path.parent)
            digests = write_shard(path, arrays, attributes)
    except CheckpointError:
        with suppress(OSError):
            path.unlink()
        raise
    gathered = _gather_digests(names, arrays, digests, communicator)
    # From here on shards stay, even after a failure: the manifest may be there although writing it failed.
    with failing_together(communicator, CheckpointError):
        if communicator.rank == 0:
            _manifest(names, layouts, gathered, path.name, epoch, step).write(folder)
    return folder


def load_shards(
    folder: str | Path, layouts: Mapping[str, Layout], communicator: Communicator
) -> dict[str, NDArray[Any]]:
    """Return the arrays that this rank saved in ``folder`` with the same ``layouts``; all ranks call it together.

    If anything fails on any rank, every rank raises ``CheckpointError`` that says where and why.
    """
    with failing_together(communicator, CheckpointError):
        return load_rank(folder, layouts, communicator.rank, communicator.size)


def load_rank(folder: str | Path, layouts: Mapping[str, Layout], rank: int, rank_count: int) -> dict[str, NDArray[Any]]:
    """Return the arrays that ``rank`` of ``rank_count`` saved in ``folder`` with the same ``layouts``.

    Raises ``CheckpointError`` if the checkpoint is of other layouts or ranks, or is damaged.
    """
    manifest = Manifest.load(folder)
    where = Path(folder) / MANIFEST_NAME
    _check_fits(manifest, layouts, rank_count, where)
    shard = manifest.shards[rank]
    path = Path(folder) / shard.file
    stored = describe_shard(path)
    if stored.keys() != shard.digests.keys():
        raise CheckpointError(f"{path}: holds {sorted(stored)}, expected {sorted(shard.digests)}; restore the file")
    for name, found in stored.items():
        entry = manifest.tensors[name]
        expected = (entry.layout.local_shape(rank), np.dtype(entry.dtype), shard.digests[name])
        if found != expected:
            raise CheckpointError(
                f'{path}: dataset "{name}" is {_shown(*found)}, expected {_shown(*expected)} as in {where}; it is of '
                "another step or rank: restore the file"
            )
    return read_shard(path)


def _check_state(arrays: Mapping[str, NDArray[Any]], layouts: Mapping[str, Layout], rank: int) -> None:
    expected = {name for name, layout in layouts.items() if rank in layout.devices}
    if expected != set(arrays):
        raise CheckpointError(
            f"arrays without a layout here: {sorted(set(arrays) - expected)}, layouts without an array: "
            f"{sorted(expected - set(arrays))}; pass one array for each layout of this rank"
        )
    for name, array in arrays.items():
        shape = layouts[name].local_shape(rank)
        if array.shape != shape:
            raise CheckpointError(f'array "{name}" has shape {array.shape}, but {layouts[name]} asks for {shape}')


def _check_replaceable(folder: Path, path: Path) -> None:
    """Refuse to replace a shard that the manifest names: a crash would lose the checkpoint it belongs to."""
    if not path.exists() or not (folder / MANIFEST_NAME).exists():
        return
    if path in {folder / shard.file for shard in Manifest.load(folder).shards}:
        raise CheckpointError(f"{path}: is part of a complete checkpoint; use another folder or prefix, or delete that")


def _check_same(fingerprint: int, communicator: Communicator) -> None:
    gathered = np.zeros(communicator.size, np.uint32)
    communicator.all_gather(np.array([fingerprint], np.uint32), gathered)
    others = np.flatnonzero(gathered != gathered[0]).tolist()
    if others:
        raise CheckpointError(
            f"ranks {others} save another prefix, epoch, step or other layouts than rank 0; pass the same on every rank"
        )


def _make_folder(folder: Path) -> None:
    """Make the folder of a rank, on disk, and clear it of what a killed save left; no other rank writes there."""
    folder.mkdir(parents=True, exist_ok=True)
    sync_folder(folder.parent)
    sync_folder(folder.parent.parent)
    for partial in folder.glob(f"{PARTIAL_PREFIX}*"):
        partial.unlink(missing_ok=True)


def _gather_digests(
    names: list[str], arrays: Mapping[str, NDArray[Any]], digests: Mapping[str, str], communicator: Communicator
) -> NDArray[np.uint32]:
    """Return, for each rank and name, the digest and the dtype's character; zeros where a rank has no such array."""
    own = np.zeros((len(names), 2), np.uint32)
    for index, name in enumerate(names):
        if name in digests:
            own[index] = int(digests[name], 16), ord(arrays[name].dtype.char)
    gathered = np.zeros((communicator.size, *own.shape), np.uint32)
    communicator.all_gather(own, gathered)
    return gathered


def _manifest(
    names: list[str],
    layouts: Mapping[str, Layout],
    gathered: NDArray[np.uint32],
    file_name: str,
    epoch: int,
    step: int,
) -> Manifest:
    tensors, shards = {}, []
    for index, name in enumerate(names):
        tensors[name] = TensorEntry(layouts[name].canonical, _dtype_of(gathered[:, index, 1], name))
    for rank, entries in enumerate(gathered.tolist()):
        digests = {name: f"{digest:08x}" for name, (digest, code) in zip(names, entries, strict=True) if code}
        shards.append(ShardEntry(f"rank_{rank}/{file_name}", digests))
    return Manifest(epoch, step, tensors, tuple(shards))


def _dtype_of(codes: NDArray[np.uint32], name: str) -> str:
    found = sorted({chr(code) for code in codes.tolist() if code})
    if len({np.dtype(char).str for char in found}) != 1:
        raise CheckpointError(f'tensor "{name}" has dtypes {found} on the ranks; give every rank the same one')
    return np.dtype(found[0]).str


def _check_fits(manifest: Manifest, layouts: Mapping[str, Layout], rank_count: int, where: Path) -> None:
    missing = sorted(layouts.keys() - manifest.tensors.keys())
    besides = sorted(manifest.tensors.keys() - layouts.keys())
    if missing or besides:
        raise CheckpointError(f"{where}: lacks {missing} and has {besides} besides; load the network that was saved")
    if manifest.rank_count != rank_count:
        raise CheckpointError(f"{where}: was saved by {manifest.rank_count} ranks, not {rank_count}; start as many")
    for name, layout in layouts.items():
        saved = manifest.tensors[name].layout
        if layout.canonical != saved:
            raise CheckpointError(
                f'{where}: tensor "{name}" was saved as {saved}, not as {layout}; use the strategy it was saved with'
            )


def _shown(shape: tuple[int, ...], dtype: np.dtype[Any], digest: str) -> str:
    return f"{shape} {dtype} with digest {digest}"
