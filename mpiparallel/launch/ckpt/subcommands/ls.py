"""``mpiparallel ckpt ls``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from mpiparallel.checkpoint.catalogue import catalogue, root_of, uncommitted
from mpiparallel.checkpoint.catalogued import Catalogued
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.launch.ckpt.output import answer, moment, several, table
from mpiparallel.launch.plan.report import amount

_HEAD = ("checkpoint", "epoch", "step", "ranks", "tensors", "on disk", "saved", "files")


def execute(arguments: argparse.Namespace) -> int:
    """List the checkpoints of a folder; return 0."""
    folder = root_of(arguments.folder)
    entries = catalogue(folder)
    sound = [_described(folder, entry.manifest) for entry in entries if entry.manifest is not None]
    told = {
        "folder": str(folder),
        "checkpoints": sound,
        "damaged": [{"name": entry.name, "problem": entry.problem} for entry in entries if entry.manifest is None],
        "uncommitted": [{"file": str(path.relative_to(folder)), "bytes": _size(path)} for path in uncommitted(folder)],
    }
    answer(told, _lines(told, entries), arguments.json)
    return 0


def _described(folder: Path, manifest: Manifest) -> dict[str, Any]:
    shards = [shard for shard in manifest.shards if shard is not None]
    missing = [shard.file for shard in shards if _size(folder / shard.file) != shard.size]
    return {
        "name": manifest.name,
        "prefix": manifest.prefix,
        "epoch": manifest.epoch,
        "step": manifest.step,
        "ranks": manifest.rank_count,
        "tensors": len(manifest.tensors),
        "bytes": sum(shard.size for shard in shards),
        "saved": manifest.saved,
        "files": len(shards),
        "missing": missing,
    }


def _lines(told: dict[str, Any], entries: list[Catalogued]) -> Iterator[str]:
    if told["checkpoints"]:
        yield from table(_HEAD, [_row(entry) for entry in told["checkpoints"]], "lrrrrrll")
    else:
        yield f"{told['folder']}: no checkpoint was completed here"
    for entry in entries:
        if entry.manifest is None:
            yield f"damaged: {entry.problem}"
    left = told["uncommitted"]
    if left:
        size = amount(sum(file["bytes"] for file in left))
        yield (
            f"left by saves that did not end, or run now: {several(len(left), 'file')}, {size}; "
            f"mpiparallel ckpt prune {told['folder']} --leftovers deletes them"
        )


def _row(entry: dict[str, Any]) -> list[str]:
    counts = [str(entry[key]) for key in ("epoch", "step", "ranks", "tensors")]
    missing = entry["missing"]
    state = f"{len(missing)} of {entry['files']} missing or cut short" if missing else f"{entry['files']} there"
    return [entry["name"], *counts, amount(entry["bytes"]), moment(entry["saved"]), state]


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.lstat().st_size
    return -1
