"""``mpiparallel slurm``: the parser of its subcommands."""

from __future__ import annotations

import argparse
import importlib
from typing import TYPE_CHECKING

from mpiparallel.launch.command_line.argument_types import count, file_path
from mpiparallel.launch.job.script import Script
from mpiparallel.launch.slurm.batch_script import LAUNCHERS

if TYPE_CHECKING:
    from mpiparallel.launch.command_line.parser import Subparsers

NAME = "slurm"
_MAKE = """
Write a batch script for a job. Without a script.py it takes one from sbatch's command line, as those in launchers/ do.
"""
_EXAMPLES = (
    "mpiparallel slurm make --nodes 2 --ntasks-per-node 8 -o job.sh train.py",
    "mpiparallel slurm make --time 12:00:00 --requeue -o job.sh train.py --epochs 9",
)


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``mpiparallel slurm``."""
    parser = subparsers.add_parser(
        NAME, help="make batch scripts for SLURM", description="Make batch scripts for SLURM.", examples=_EXAMPLES[:1]
    )
    inner = parser.add_commands("subcommand", "SUBCOMMAND")
    make = inner.add_parser(
        "make",
        usage="mpiparallel slurm make [options] [script.py [arguments of the script]]",
        help="write a batch script for a job",
        description=_MAKE,
        examples=_EXAMPLES,
    )
    _add_allocation(make)
    make.add_argument(
        "--launcher",
        choices=(*LAUNCHERS, "srun"),
        default="run",
        help="run: mpiparallel run with its mpirun (default); pmix, pmi2: srun with that; srun: the one of them "
        "that the MPI of this Python needs",
    )
    make.add_argument("--python", metavar="PATH", default="python", help="of every node (default: python)")
    make.add_argument(
        "--signal",
        type=count,
        metavar="S",
        help="ask the ranks to commit and end, by SIGUSR1, S seconds before its time is up (default: 120 with "
        "--requeue)",
    )
    make.add_argument(
        "--requeue", action="store_true", help="let the job come again after a preemption or the loss of a node"
    )
    make.add_argument("-o", "--output", type=file_path, metavar="FILE", help="write here (default: to stdout)")
    make.add_argument("--json", action="store_true", help="print JSON: where it was written, and its text")
    Script.add_arguments(make)


def execute(arguments: argparse.Namespace) -> int:
    """Do what ``arguments`` ask for; return 0."""
    code: int = importlib.import_module(f"mpiparallel.launch.slurm.{arguments.subcommand}").execute(arguments)
    return code


def _add_allocation(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("allocation", "as sbatch knows them")
    group.add_argument("--job-name", metavar="NAME", default="mpiparallel", help="(default: mpiparallel)")
    group.add_argument("--nodes", type=count, metavar="N", default=1, help="(default: 1)")
    group.add_argument("--ntasks-per-node", type=count, metavar="N", default=1, help="ranks of a node (default: 1)")
    group.add_argument("--cpus-per-task", type=count, metavar="N", help="processors of a rank")
    group.add_argument("--gpus-per-node", metavar="GPUS", help="as sbatch takes it: 4, or a100:4")
    group.add_argument("--time", metavar="TIME", help="as sbatch takes it: 30, 02:00:00, 1-12:00:00")
    group.add_argument("--partition", metavar="NAME")
    group.add_argument("--account", metavar="NAME")
