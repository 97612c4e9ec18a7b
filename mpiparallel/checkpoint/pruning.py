"""Making room: old checkpoints, and what saves that were killed have left."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mpiparallel.checkpoint.catalogue import catalogue, remove, remove_files, uncommitted
from mpiparallel.checkpoint.durable_file import PARTIAL_PREFIX
from mpiparallel.checkpoint.manifest import MANIFEST_SUFFIX, Manifest
from mpiparallel.errors import CheckpointError

# A save that is running has written something in this time.
SAVE_SECONDS = 600.0


class Pruned(NamedTuple):
    """Checkpoints that were removed and leftovers that were deleted, by name and path; what they took in bytes.

    ``spared`` are leftovers that are so young that a save may be writing them.
    """

    removed: tuple[str, ...]
    cleared: tuple[Path, ...]
    spared: tuple[Path, ...]
    nbytes: int


def prune(
    folder: str | Path,
    keep: int | None = None,
    prefix: str | None = None,
    leftovers: bool = False,
    youngest: float = SAVE_SECONDS,
    dry_run: bool = False,
) -> Pruned:
    """Remove all but the newest ``keep`` checkpoints of each prefix in ``folder``, or of ``prefix`` only.

    One that lacks a file, or has one cut short, stays as long as it is newer than the last that is kept, and does not
    count: it may be that only an older one can be loaded.
    With ``leftovers`` also files of saves that never ended, unless one was written in the last ``youngest`` seconds:
    then a save may be running. A checkpoint whose manifest is damaged stays; where there is no manifest at all, nothing
    is deleted. With ``dry_run`` nothing is deleted.
    Raises ``CheckpointError`` if ``keep`` is below 1, for the newest always stays, and for shards without any manifest.
    """
    if keep is not None and keep < 1:
        raise CheckpointError(f"{folder}: cannot keep {keep} checkpoints; keep 1 or more, the newest always stays")
    root = Path(folder)
    condemned = [] if keep is None else _beyond(root, keep, prefix)
    cleared, spared = _leftovers(root, youngest) if leftovers else ([], [])
    nbytes = sum(shard.size for manifest in condemned for shard in manifest.shards if shard is not None)
    nbytes += sum(map(_size, cleared))
    if not dry_run:
        for manifest in condemned:
            remove(root, manifest)
        remove_files(cleared)
    return Pruned(tuple(manifest.name for manifest in condemned), tuple(cleared), tuple(spared), nbytes)


def _beyond(root: Path, keep: int, prefix: str | None) -> list[Manifest]:
    """Return the checkpoints to remove, the oldest first."""
    manifests = [entry.manifest for entry in catalogue(root, prefix) if entry.manifest is not None]
    kept: dict[str, int] = {}
    condemned = []
    for manifest in reversed(manifests):
        if kept.get(manifest.prefix, 0) == keep:
            condemned.append(manifest)
        elif all(shard is None or _size(root / shard.file) == shard.size for shard in manifest.shards):
            kept[manifest.prefix] = kept.get(manifest.prefix, 0) + 1
    return condemned[::-1]


def _leftovers(root: Path, youngest: float) -> tuple[list[Path], list[Path]]:
    """Return what to delete and what to spare of the files that no manifest names."""
    files = uncommitted(root)
    if any(not path.name.startswith(PARTIAL_PREFIX) for path in files) and not catalogue(root):
        raise CheckpointError(
            f"{root}: has shards but no manifest at all, so they may have been copied without; put the manifests back, "
            "or delete the shards yourself"
        )
    # Ranks do not end together, so an old shard may belong to a save in which another rank still writes.
    busy = any(_age(path) < youngest for path in files)
    cleared = [path for path in files if not busy and not _is_committed(root, path)]
    return cleared, [path for path in files if path not in set(cleared)]


def _is_committed(root: Path, path: Path) -> bool:
    """Return whether the manifest of a shard has come since the folder was listed."""
    is_shard = not path.name.startswith(PARTIAL_PREFIX)
    return is_shard and (root / f"{path.name.removesuffix('.h5')}{MANIFEST_SUFFIX}").exists()


def _age(path: Path) -> float:
    with suppress(OSError):
        return time.time() - path.lstat().st_mtime
    return 0.0


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.lstat().st_size
    return 0
