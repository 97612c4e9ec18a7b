"""``mpiparallel ckpt recover``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from mpiparallel.checkpoint.catalogue import find
from mpiparallel.checkpoint.maintenance.shard_recovery import CheckpointRecovery, Rebuilt, recover
from mpiparallel.launch.ckpt.output import answer, several
from mpiparallel.launch.command_line.progress import progress_bar
from mpiparallel.launch.plan.report import amount


def execute(arguments: argparse.Namespace) -> int:
    """Rebuild what is lost of a checkpoint; return 1 where something remains that replicas cannot mend."""
    folder, manifest = find(arguments.checkpoint)
    with progress_bar(f"recover {manifest.name}") as progress:
        found = recover(folder, manifest.name, progress)
    answer(_told(found), _lines(found), arguments.json)
    return 1 if found.remaining else 0


def _told(found: CheckpointRecovery) -> dict[str, Any]:
    return {
        "folder": str(found.folder),
        "name": found.name,
        "rebuilt": [
            {
                "rank": shard.rank,
                "file": shard.file,
                "bytes": shard.size,
                "problems": [str(problem) for problem in shard.problems],
                "sources": {str(rank): list(tensors) for rank, tensors in shard.sources.items()},
            }
            for shard in found.rebuilt
        ],
        "renewed": list(found.renewed),
        "remaining": [str(problem) for problem in found.remaining],
    }


def _lines(found: CheckpointRecovery) -> Iterator[str]:
    name = found.folder / found.name
    if found.rebuilt:
        size = amount(sum(shard.size for shard in found.rebuilt))
        yield f"{name}: rebuilt {several(len(found.rebuilt), 'shard')}, {size}, as committed"
    else:
        yield f"{name}: all shards are sound; there was nothing to rebuild"
    for shard in found.rebuilt:
        yield f"  rank {shard.rank} from {_sources(shard)}"
        for problem in shard.problems:
            yield f"    was: {problem}"
    if found.renewed:
        ranks = ", ".join(map(str, found.renewed))
        yield f"the manifest has new digests of the shards of ranks {ranks}: HDF5 arranges them otherwise here"
    for problem in found.remaining:
        yield f"remains: {problem}"


def _sources(shard: Rebuilt) -> str:
    parts = []
    for rank, tensors in shard.sources.items():
        holder = "what was whole in its own file" if rank == shard.rank else f"rank {rank}"
        parts.append(f"{holder} ({several(len(tensors), 'tensor')})")
    return " and ".join(parts) or "nothing, for it is empty"
