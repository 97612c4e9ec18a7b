"""``mpiparallel run``: run a script on many ranks."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mpiparallel.cluster.device_rules import device_warnings
from mpiparallel.cluster.hostfile import Hostfile
from mpiparallel.cluster.processor import read_core_type
from mpiparallel.cluster.rank_table import RankTable
from mpiparallel.errors import LaunchError, RankTableError
from mpiparallel.launch.command import Command, Job, build
from mpiparallel.launch.installation import LAUNCHERS, Installation, find_installation
from mpiparallel.launch.placement import place
from mpiparallel.launch.script import Script
from mpiparallel.launch.supervise import supervise

if TYPE_CHECKING:
    from mpiparallel.launch.cli import Subparsers

NAME = "run"


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``mpiparallel run``."""
    parser = subparsers.add_parser(
        NAME,
        help="run a script on many ranks",
        description="Run a script on many ranks. Each prints to device<rank>/train.log<rank>, rank 0 also here.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "-n", "--ranks", type=_count, metavar="N", help="how many ranks (default: those of the rank table)"
    )
    parser.add_argument("--rank-table", type=Path, metavar="FILE", help="HCCL rank table (default: $RANK_TABLE_FILE)")
    parser.add_argument(
        "--hostfile", type=Path, metavar="FILE", help="hosts and their slots, in any dialect; see hostfiles/README.md"
    )
    parser.add_argument("--mpi", choices=sorted(LAUNCHERS), help="refuse any other MPI than this")
    parser.add_argument(
        "--log-dir", type=Path, default=Path(), metavar="DIR", help="where device<rank>/ goes (default: here)"
    )
    parser.add_argument(
        "--timeout", type=_seconds, metavar="S", help="stop the job after S seconds, with exit code 124"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print the command and its environment, and start nothing"
    )
    Script.add_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Run the job that ``arguments`` describe; return 0 if every rank ended well, else its exit code."""
    job = _job(arguments)
    if arguments.dry_run and arguments.mpi:
        # Naming the MPI makes a dry run work where there is none.
        installation = Installation(arguments.mpi, arguments.mpi, LAUNCHERS[arguments.mpi][0])
    else:
        installation = find_installation(arguments.mpi)
    command = build(job, installation, os.environ)
    if arguments.dry_run:
        print(command)
        return 0
    _say(_summary(job, installation, command))
    outcome = supervise(command, job.ranks, job.log_dir, arguments.timeout)
    if outcome.message:
        _say(f"error: {outcome.message}")
    return outcome.code


def _job(arguments: argparse.Namespace) -> Job:
    script = Script.parsed(arguments)
    script.check()
    path = arguments.rank_table or (Path(os.environ["RANK_TABLE_FILE"]) if os.environ.get("RANK_TABLE_FILE") else None)
    table = RankTable.load(path) if path else None
    ranks = _rank_count(arguments.ranks, table, path)
    for warning in device_warnings(table) if table else ():
        _say(f"warning: {path}: {warning}")
    hostfile = Hostfile.load(arguments.hostfile) if arguments.hostfile else None
    return Job(
        ranks=ranks,
        script=script,
        placement=place(ranks, table, hostfile, os.environ),
        log_dir=arguments.log_dir.absolute(),
        python=sys.executable,
        cores=len(os.sched_getaffinity(0)),
        core_type=read_core_type(os.environ),
        debug=arguments.debug,
        rank_table=path.absolute() if path else None,
    )


def _rank_count(asked: int | None, table: RankTable | None, path: Path | None) -> int:
    if table is None:
        if asked is None:
            raise LaunchError("how many ranks? give -n N, or a --rank-table")
        return asked
    if asked not in (None, table.rank_count):
        raise RankTableError(
            f"{path}: the rank table has {table.rank_count} ranks, -n asks for {asked}; "
            f"leave -n out, or give a table of {asked} ranks"
        )
    return table.rank_count


def _summary(job: Job, installation: Installation, command: Command) -> str:
    words = [f"{job.ranks} ranks", installation.library]
    words += [f"{name}={command.environment[name]}" for name in _told(command)]
    return ", ".join([*words, f"logs in {job.log_dir}/device<rank>/"])


def _told(command: Command) -> Sequence[str]:
    return [name for name in ("OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE") if name in command.environment]


def _say(words: str) -> None:
    print(f"mpiparallel: {words}", file=sys.stderr, flush=True)


def _count(text: str) -> int:
    if not (text.isascii() and len(text) < 8 and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f'"{text}" is not a number of ranks; give a whole number from 1')
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f'"{text}" is not a time; give seconds above 0')
    return seconds
