"""Making room: old checkpoints, and what saves that were killed have left."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mpiparallel.checkpoint.catalogue import (
    CheckpointFiles,
    catalogue,
    committed,
    file_size,
    remove,
    remove_files,
    uncommitted,
)
from mpiparallel.checkpoint.files.durable_file import PARTIAL_PREFIX
from mpiparallel.checkpoint.manifest import MANIFEST_SUFFIX
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

    One that lacks a file, or has one cut short, stays as long as it is newer than the last that is kept. It does not
    count, because it may be that only an older one can be loaded. With ``leftovers`` also files of saves that never
    ended, unless one was written in the last ``youngest`` seconds: then a save may be running. A checkpoint whose
    manifest is damaged stays; where there is no manifest at all, nothing is deleted. With ``dry_run`` nothing is
    deleted. Raises ``CheckpointError`` if ``keep`` is below 1, for the newest always stays, and for shards without any
    manifest.
    """
    if keep is not None and keep < 1:
        raise CheckpointError(f"{folder}: cannot keep {keep} checkpoints; keep 1 or more, the newest always stays")
    root = Path(folder)
    condemned = [] if keep is None else beyond(root, committed(root, prefix, {}), keep)
    cleared, spared = _leftovers(root, youngest) if leftovers else ([], [])
    nbytes = sum(one.byte_count for one in condemned) + sum(map(file_size, cleared))
    if not dry_run:
        remove(root, condemned)
        remove_files(cleared)
    return Pruned(tuple(one.name for one in condemned), tuple(cleared), tuple(spared), nbytes)


def beyond(folder: Path, checkpoints: Sequence[CheckpointFiles], keep: int) -> list[CheckpointFiles]:
    """Return the checkpoints, the oldest first, that are older than the newest ``keep`` whole ones of their prefix.

    A checkpoint that is not whole does not count; it goes when it is older than those that are kept.
    """
    kept: Counter[str] = Counter()
    condemned = []
    for one in reversed(checkpoints):
        if kept[one.prefix] == keep:
            condemned.append(one)
        else:
            kept[one.prefix] += one.is_whole(folder)
    return condemned[::-1]


def too_close(folder: Path, checkpoints: Sequence[CheckpointFiles], seconds: float) -> list[CheckpointFiles]:
    """Return the checkpoints to delete, the oldest first, so that those kept are at least ``seconds`` apart.

    Each checkpoint is compared with the last whole one before it that is kept. The newest is always kept.
    """
    condemned, last = [], -math.inf
    for one in checkpoints[:-1]:
        if one.saved - last < seconds:
            condemned.append(one)
        elif one.is_whole(folder):
            last = one.saved
    return condemned


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
