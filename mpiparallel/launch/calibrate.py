"""``mpiparallel calibrate``: measure the machine that the search for strategies prices steps for, and keep it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from mpiparallel.cluster.hostfile import Hostfile
from mpiparallel.launch import run
from mpiparallel.launch.command_line.argument_types import file_path, rank_count
from mpiparallel.launch.command_line.parser import Parser

if TYPE_CHECKING:
    from mpiparallel.launch.command_line.parser import Subparsers

NAME = "calibrate"
_JOB = "mpiparallel.launch.measuring_ranks"
_GPU_JOB = "mpiparallel.search.machine.measuring_gpus"


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``mpiparallel calibrate``."""
    parser = subparsers.add_parser(
        NAME,
        help="measure the machine for the search of strategies",
        description="Measure kernels, memory and links with all ranks busy, in a few seconds, and keep what was found "
        "in the user's cache folder. Auto parallel prices strategies by it.",
        examples=("mpiparallel calibrate -n 8", "mpiparallel calibrate --hostfile hosts"),
    )
    parser.add_argument(
        "-n",
        "--ranks",
        type=rank_count,
        metavar="N",
        help="how many ranks (default: one for each slot of the hostfile; without one, for each core here)",
    )
    parser.add_argument("--gpu", action="store_true", help="measure the ranks' GPUs: one rank for each of them")
    parser.add_argument("--hostfile", type=file_path, metavar="FILE", help="hosts and their slots, in any dialect")
    parser.add_argument("--json", action="store_true", help="print JSON: the machine, as in a cluster file")


def execute(arguments: argparse.Namespace) -> int:
    """Run the ranks that measure; return their exit code."""
    ranks = arguments.ranks or _places(arguments.hostfile)
    hosts = [f"--hostfile={arguments.hostfile}"] if arguments.hostfile else []
    parser = Parser(prog="mpiparallel")
    parser.set_defaults(debug=arguments.debug)
    run.add_parser(parser.add_commands("command", "COMMAND"))
    with TemporaryDirectory(prefix="mpiparallel_calibrate_") as folder:
        told = ["--json"] if arguments.json else []
        job = _GPU_JOB if arguments.gpu else _JOB
        words = [run.NAME, f"--ranks={ranks}", *hosts, f"--log-dir={Path(folder)}", "-m", job, *told]
        return run.execute(parser.parse_args(words))


def _places(hostfile: Path | None) -> int:
    """Return how many ranks there is a place for: slots of the hosts, or cores of this one."""
    return Hostfile.load(hostfile).slots if hostfile else len(os.sched_getaffinity(0))
