"""``mpiparallel ckpt prune``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from mpiparallel.checkpoint.catalogue import root_of
from mpiparallel.checkpoint.maintenance.pruning import Pruned, prune
from mpiparallel.errors import ConfigurationError
from mpiparallel.launch.ckpt.output import answer, several
from mpiparallel.launch.plan.report import amount


def execute(arguments: argparse.Namespace) -> int:
    """Delete old checkpoints and leftovers; return 0."""
    folder = root_of(arguments.folder)
    if arguments.keep is None and not arguments.leftovers:
        raise ConfigurationError(f"prune {folder}: say what to delete: --keep N, --leftovers, or both")
    done = prune(folder, arguments.keep, arguments.prefix, arguments.leftovers, dry_run=arguments.dry_run)
    told = {
        "folder": str(folder),
        "dry_run": arguments.dry_run,
        "removed": list(done.removed),
        "cleared": [str(path.relative_to(folder)) for path in done.cleared],
        "spared": [str(path.relative_to(folder)) for path in done.spared],
        "bytes": done.nbytes,
    }
    answer(told, _lines(done, folder, arguments.dry_run), arguments.json)
    return 0


def _lines(done: Pruned, folder: Path, dry_run: bool) -> Iterator[str]:
    verb = "would delete" if dry_run else "deleted"
    if done.removed or done.cleared:
        what = f"{several(len(done.removed), 'checkpoint')} and {several(len(done.cleared), 'file')} of unended saves"
        yield f"{folder}: {verb} {what}, {amount(done.nbytes)}"
    else:
        yield f"{folder}: nothing to delete"
    for name in done.removed:
        yield f"  {name}"
    for path in done.cleared:
        yield f"  {path.relative_to(folder)}"
    if done.spared:
        yield f"spared {several(len(done.spared), 'file')} of a save that may be running; prune again in 10 minutes"
