"""``mpiparallel ckpt transform``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from mpiparallel.checkpoint.catalogue import find
from mpiparallel.checkpoint.maintenance.conversion import transform_checkpoint
from mpiparallel.checkpoint.maintenance.target_layouts import as_strategy_says, rows_over, whole_on
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.errors import ConfigurationError
from mpiparallel.launch.ckpt.output import answer, several
from mpiparallel.launch.command_line.progress import progress_bar
from mpiparallel.launch.plan.report import amount
from mpiparallel.launch.plan.state import on_ranks
from mpiparallel.layout.layout import Layout


def execute(arguments: argparse.Namespace) -> int:
    """Write a checkpoint anew, cut otherwise; return 0."""
    folder, manifest = find(arguments.checkpoint)
    _check(arguments)
    layouts = _layouts(arguments, manifest)
    with progress_bar(f"transform {manifest.name}") as progress:
        path = transform_checkpoint(
            folder / manifest.name, arguments.target, layouts, progress, arguments.remove_redundancy
        )
    made = Manifest.load(path)
    told = {
        "checkpoint": str(folder / manifest.name),
        "manifest": str(path),
        "name": made.name,
        "ranks_before": manifest.rank_count,
        "ranks": made.rank_count,
        "tensors": len(made.tensors),
        "bytes": sum(shard.size for shard in made.shards if shard is not None),
    }
    answer(told, _lines(told), arguments.json)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    if (arguments.strategy is None) == (arguments.ranks is None):
        raise ConfigurationError("transform: give either --strategy FILE or --ranks N")
    if arguments.cut is not None and arguments.ranks is None:
        raise ConfigurationError(f"--cut {arguments.cut}: goes with --ranks N; a strategy file says its own cuts")
    if arguments.replicate_missing and arguments.strategy is None:
        raise ConfigurationError("--replicate-missing: goes with --strategy FILE; --ranks N leaves no tensor out")


def _layouts(arguments: argparse.Namespace, manifest: Manifest) -> dict[str, Layout]:
    if arguments.strategy is not None:
        return as_strategy_says(arguments.strategy, manifest.layouts, arguments.replicate_missing)
    if arguments.cut == "same":
        return on_ranks(manifest.layouts, arguments.ranks, manifest.name)
    shapes = {name: layout.global_shape for name, layout in manifest.layouts.items()}
    return (whole_on if arguments.cut == "whole" else rows_over)(shapes, arguments.ranks)


def _lines(told: dict[str, Any]) -> Iterator[str]:
    yield (
        f"{told['checkpoint']}: {told['ranks_before']} -> {told['ranks']} ranks, {several(told['tensors'], 'tensor')}, "
        f"{amount(told['bytes'])}"
    )
    yield f"committed: {told['manifest']}"
