"""``mpiparallel doctor``: look at what would hinder a job."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from mpiparallel.launch.command_line.argument_types import file_path, rank_count

if TYPE_CHECKING:
    from mpiparallel.launch.command_line.parser import Subparsers

NAME = "doctor"
_DESCRIPTION = """
Look at what would hinder a job on this machine, and on those of a hostfile or a rank table. The doctor looks at MPI and
its launcher, libraries, processor, limits, folders, network, SLURM and GPUs, and starts two ranks. What is wrong is
shown with the line that mends it. Nothing is changed.
"""
_EPILOG = """
Exit codes: 0 no errors, though there may be warnings; 1 errors, with which jobs fail; 2 refused.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``mpiparallel doctor``."""
    parser = subparsers.add_parser(
        NAME,
        help="look at what would hinder a job",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        examples=("mpiparallel doctor", "mpiparallel doctor --hostfile hosts -n 8", "mpiparallel doctor --json"),
    )
    hosts = parser.add_mutually_exclusive_group()
    hosts.add_argument("--hostfile", type=file_path, metavar="FILE", help="look at its hosts too, over ssh")
    hosts.add_argument("--rank-table", type=file_path, metavar="FILE", help="look at its servers too, over ssh")
    parser.add_argument(
        "-n",
        "--ranks",
        type=rank_count,
        metavar="N",
        help="ranks that this host is to run (default: its slots, or cores)",
    )
    parser.add_argument(
        "--log-dir", type=file_path, default=Path(), metavar="DIR", help="where logs are to go (default: here)"
    )
    parser.add_argument(
        "--checkpoint-dir", type=file_path, metavar="DIR", help="where checkpoints are to go (default: where logs go)"
    )
    parser.add_argument("--fix-hints", action="store_true", help="show the mending lines of notes, too")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def execute(arguments: argparse.Namespace) -> int:
    """Examine what ``arguments`` name and print it; return 1 if jobs would fail, else 0."""
    # Every other command would pay for what this one imports.
    code: int = importlib.import_module("mpiparallel.launch.doctor.consultation").consult(arguments)
    return code
