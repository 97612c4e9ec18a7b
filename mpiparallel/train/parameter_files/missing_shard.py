"""What to do where one shard of a checkpoint is asked for and is not there: who holds the same."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from mpiparallel.checkpoint.catalogue import manifest_of_shard
from mpiparallel.checkpoint.files.regular_file import from_root
from mpiparallel.checkpoint.formats.registry import FORMATS
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.shard_places import SHARD_FORMATS
from mpiparallel.errors import CheckpointError

_SUFFIXES: Final = frozenset(format_.suffix for format_ in FORMATS.values())
_SHOWN: Final = 3


def refuse_missing_shard(path: Path) -> None:
    """Raise CheckpointError where ``path`` is missing: for a shard that a manifest names it says who holds the same.

    For another name it says which files like it the folder has; nothing is raised where there is none.
    """
    if path.exists():
        return
    for shard in (path.with_suffix(f".{format_}") for format_ in SHARD_FORMATS):
        manifest_path = manifest_of_shard(shard)
        if manifest_path is None:
            continue
        folder, manifest = manifest_path.parent, Manifest.load(manifest_path)
        files = [None if entry is None else folder / entry.file for entry in manifest.shards]
        if from_root(shard) in files:
            rank = files.index(from_root(shard))
            held = (other for other, file in enumerate(files) if file is not None and file.is_file())
            raise CheckpointError(
                f"{shard}: is missing, the shard of rank {rank}; {_mend(manifest, rank, held, folder)}"
            )
    beside = [file.name for file in path.parent.glob("*") if file.suffix in _SUFFIXES]
    if beside and path.suffix in _SUFFIXES:
        nearest = ", ".join(get_close_matches(path.name, beside, _SHOWN, cutoff=0))
        raise CheckpointError(f"{path}: is not there; name one that is, such as {nearest}")


def _mend(manifest: Manifest, rank: int, held: Iterable[int], folder: Path) -> str:
    equal = [other for other in held if _is_replica(manifest, rank, other)]
    if not equal:
        return f"no other rank holds all the same slices; see what there is by: mpiparallel ckpt verify {folder}"
    return (
        f"rank {equal[0]} holds the same slices: copy its file, or have it rebuilt by: "
        f"mpiparallel ckpt recover {folder / manifest.name}"
    )


def _is_replica(manifest: Manifest, rank: int, other: int) -> bool:
    layouts = [layout for layout in manifest.layouts.values() if rank in layout.devices]
    return all(other in layout.devices and other in layout.replica_group(rank) for layout in layouts)
