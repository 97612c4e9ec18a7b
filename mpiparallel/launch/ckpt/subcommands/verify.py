"""``mpiparallel ckpt verify``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, Final

from mpiparallel.checkpoint.catalogue import find
from mpiparallel.checkpoint.maintenance.verification import Verification, verify
from mpiparallel.launch.ckpt.output import answer, several
from mpiparallel.launch.command_line.progress import progress_bar
from mpiparallel.launch.plan.report import amount

_SHOWN: Final = 50


def execute(arguments: argparse.Namespace) -> int:
    """Read every byte of a checkpoint and say what is wrong; return 1 where something is."""
    folder, manifest = find(arguments.checkpoint)
    with progress_bar(f"verify {manifest.name}") as progress:
        found = verify(folder, manifest, progress)
    answer(_told(found), _lines(found), arguments.json)
    return 0 if found.is_sound else 1


def _told(found: Verification) -> dict[str, Any]:
    shards = [shard for shard in found.manifest.shards if shard is not None]
    return {
        "folder": str(found.folder),
        "name": found.manifest.name,
        "sound": found.is_sound,
        "loadable": not found.lost,
        "files": len(shards) + len(found.manifest.files),
        "bytes": sum(shard.size for shard in shards),
        "problems": [
            {"kind": item.kind, "file": item.file, "rank": item.rank, "tensor": item.tensor, "text": item.text}
            for item in found.problems
        ],
        "lost": [
            {
                "tensor": item.tensor,
                "start": list(item.box.start),
                "stop": list(item.box.stop),
                "ranks": list(item.ranks),
            }
            for item in found.lost
        ],
    }


def _lines(found: Verification) -> Iterator[str]:
    name = found.folder / found.manifest.name
    shards = [shard for shard in found.manifest.shards if shard is not None]
    if found.is_sound:
        size = amount(sum(shard.size for shard in shards))
        companions = f" and {several(len(found.manifest.files), 'other file')}" if found.manifest.files else ""
        tensors = several(len(found.manifest.tensors), "tensor")
        yield f"{name}: sound. {several(len(shards), 'shard')}{companions}, {tensors}, {size} read"
        return
    damaged = len(found.damaged_ranks)
    yield f"{name}: NOT sound. {_verdict(found, damaged, len(shards))}"
    yield from _first([f"  {problem}" for problem in found.problems])
    if found.lost:
        yield f"lost, in no sound file: {several(len(found.lost), 'slice')}"
        yield from _first([f"  {slice_}" for slice_ in found.lost])
    yield from _mend(found, damaged)


def _verdict(found: Verification, damaged: int, shards: int) -> str:
    if damaged:
        kept = "some slices are lost" if found.lost else "nothing is lost, replicas have it all"
        return f"{damaged} of {several(shards, 'shard')} missing or damaged; {kept}"
    if found.lost:
        return "some slices are in no shard"
    return f"The shards are whole, but there are {several(len(found.problems), 'other problem')}"


def _mend(found: Verification, damaged: int) -> Iterator[str]:
    name = found.folder / found.manifest.name
    kinds = {problem.kind for problem in found.problems}
    if found.lost:
        yield f"to mend: put the files back from a copy, or load an older one (mpiparallel ckpt ls {found.folder})"
    elif damaged:
        yield f"to mend: mpiparallel ckpt recover {name}"
    if "unequal" in kinds:
        yield "unequal replicas: the ranks had drifted apart before they saved; loading takes the lowest rank's"
    if "companion" in kinds:
        yield "strategy and group files: put them back from a copy; loading needs none of them"


def _first(lines: list[str]) -> list[str]:
    more = [f"  and {len(lines) - _SHOWN} more; --json tells all"] if len(lines) > _SHOWN else []
    return lines[:_SHOWN] + more
