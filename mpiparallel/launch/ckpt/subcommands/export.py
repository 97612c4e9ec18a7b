"""``mpiparallel ckpt merge`` and ``mpiparallel ckpt export``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mpiparallel.checkpoint.maintenance.export import export
from mpiparallel.errors import ConfigurationError
from mpiparallel.launch.ckpt.arguments import wanted
from mpiparallel.launch.ckpt.output import answer, several
from mpiparallel.launch.command_line.progress import progress_bar
from mpiparallel.launch.plan.report import amount


def execute(arguments: argparse.Namespace) -> int:
    """Write the whole tensors of a state to one file; return 0."""
    path: Path = arguments.path
    if not path.absolute().parent.is_dir():
        raise ConfigurationError(f"{path}: there is no folder {path.parent}; give one that exists")
    with progress_bar(arguments.subcommand) as progress:
        done = export(
            arguments.state, path, arguments.format, lambda name: wanted(name, arguments.only), progress=progress
        )
    told = {
        "state": arguments.state,
        "file": str(path),
        "format": done.format,
        "tensors": done.tensors,
        "bytes": done.nbytes,
        "replaced": {str(rank): reason for rank, reason in done.replaced.items()},
    }
    answer(told, _lines(told), arguments.json)
    return 0


def _lines(told: dict[str, Any]) -> Iterator[str]:
    yield f"{told['file']}: {several(told['tensors'], 'tensor')}, {amount(told['bytes'])}, as {told['format']}"
    for rank, reason in told["replaced"].items():
        yield f"rank {rank} was replaced: {reason}"
