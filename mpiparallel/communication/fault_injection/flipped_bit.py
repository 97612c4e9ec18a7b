"""One bit of a committed checkpoint turned over, as a disk may do it."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

_MANIFEST_SUFFIX = ".manifest.json"
_DEPTHS = ("", "*/", "*/*/")


def flip_newest_shard(folder: Path, rank: int, chance: random.Random) -> str:
    """Turn over a random bit of the shard of ``rank`` that was committed last; return what was done, in words.

    Checkpoints are looked for in ``folder`` and up to two folders below it. A shard that no manifest names yet is left
    alone. Raises ``OSError``.
    """
    shard = newest_shard(folder, rank)
    if shard is None:
        return f"{folder}: rank {rank} has no committed shard there; name its folder by folder=PATH"
    with shard.open("r+b") as file:
        bit = chance.randrange(8 * shard.stat().st_size)
        byte = os.pread(file.fileno(), 1, bit // 8)[0]
        os.pwrite(file.fileno(), bytes([byte ^ 1 << bit % 8]), bit // 8)
    return f"{shard}: turned over bit {bit % 8} of byte {bit // 8}"


def newest_shard(folder: Path, rank: int) -> Path | None:
    """Return the shard of ``rank`` whose manifest is the newest, None where there is none."""
    manifests = [path for depth in _DEPTHS for path in folder.glob(f"{depth}*{_MANIFEST_SUFFIX}")]
    for manifest in sorted(manifests, key=lambda path: path.stat().st_mtime_ns, reverse=True):
        shard = _named(manifest, rank)
        if shard is not None and shard.is_file() and shard.stat().st_size:
            return shard
    return None


def _named(manifest: Path, rank: int) -> Path | None:
    """Return where a manifest has the shard of ``rank``; None where it has none, or is no manifest."""
    try:
        return manifest.parent / str(json.loads(manifest.read_bytes())["manifest"]["shards"][rank]["file"])
    except (ValueError, TypeError, LookupError):
        return None
