"""``mpiparallel run``: run a script on many ranks."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mpiparallel.cluster.device_rules import device_warnings
from mpiparallel.cluster.exit_codes import COMPLETED, REQUEUE
from mpiparallel.cluster.fault_plan import FaultPlan
from mpiparallel.cluster.hostfile import Hostfile
from mpiparallel.cluster.preemption_signal import preemption_signals
from mpiparallel.cluster.processor import read_core_type
from mpiparallel.cluster.rank_table import RankTable
from mpiparallel.errors import LaunchError, RankTableError
from mpiparallel.launch.argument_types import rank_count, seconds
from mpiparallel.launch.job import msrun
from mpiparallel.launch.job.installation import LAUNCHERS, Installation, find_installation
from mpiparallel.launch.job.mapping import mapping
from mpiparallel.launch.job.mpirun_command import Command, Job, build
from mpiparallel.launch.job.on_failure import ABORT, SHRINK, OnFailure
from mpiparallel.launch.job.placement import allocated_ranks, place
from mpiparallel.launch.job.rank_settings import CHAOS_VARIABLE, rank_settings
from mpiparallel.launch.job.script import Script
from mpiparallel.launch.job.shown import Shown
from mpiparallel.launch.rank import ranked
from mpiparallel.launch.rank.starter import Starter
from mpiparallel.launch.watching.attempts import Attempts
from mpiparallel.launch.watching.outcome import Outcome
from mpiparallel.launch.watching.supervise import supervise
from mpiparallel.launch.watching.terms import START_SECONDS, Terms

if TYPE_CHECKING:
    from mpiparallel.launch.subparsers import Subparsers

NAME = "run"
_ON_FAILURE_VARIABLE = "MPIPARALLEL_ON_FAILURE"


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``mpiparallel run``."""
    parser = subparsers.add_parser(
        NAME,
        help="run a script on many ranks",
        description="Run a script on many ranks. Each prints to device<rank>/train.log<rank>, rank 0 also here.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "-n", "--ranks", type=rank_count, metavar="N", help="how many ranks (default: those of the rank table)"
    )
    parser.add_argument("--rank-table", type=Path, metavar="FILE", help="HCCL rank table (default: $RANK_TABLE_FILE)")
    parser.add_argument(
        "--hostfile", type=Path, metavar="FILE", help="hosts and their slots, in any dialect; see hostfiles/README.md"
    )
    parser.add_argument("--mpi", choices=sorted(LAUNCHERS), help="refuse any other MPI than this")
    parser.add_argument(
        "--log-dir", type=Path, default=Path(), metavar="DIR", help="where device<rank>/ goes (default: here)"
    )
    parser.add_argument("--timeout", type=seconds, metavar="S", help="stop the job after S seconds, with exit code 124")
    parser.add_argument(
        "--start-timeout",
        type=seconds,
        default=START_SECONDS,
        metavar="S",
        help="end the job if some ranks have not begun S seconds after the first one (default: %(default)g)",
    )
    _add_watching(parser)
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print which rank runs where, the command and its environment, and start nothing",
    )
    msrun.add_arguments(parser)
    Script.add_arguments(parser)


def _add_watching(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tee", action="store_true", help="show what all ranks print, each line behind its [rank]")
    parser.add_argument("--tee-ranks", metavar="LIST", help="show what these ranks print: 0,3-5")
    parser.add_argument(
        "--watchdog",
        metavar="S",
        help="end a job whose ranks wait in one collective for longer than S seconds, with exit code 86 (default: 600; "
        "off)",
    )
    parser.add_argument(
        "--on-failure",
        metavar="WHAT",
        help="abort (default); restart[:N] the job, up to N (3) times; shrink: go on without ranks that die (Open MPI)",
    )
    parser.add_argument(
        "--preemption-signal",
        metavar="NAME",
        help="on this signal ranks commit and the job ends with exit code 85 (default: USR1; off)",
    )
    parser.add_argument("--chaos", metavar="PLAN", help="strike the job with faults on purpose: kill@3:418, or seed=7")


def execute(arguments: argparse.Namespace) -> int:
    """Run the job that ``arguments`` describe; return 0 if every rank ended well, else its exit code.

    Where srun or mpirun has started this process as a rank, it is that rank.
    """
    starter = Starter.of(os.environ)
    if starter:
        return ranked.execute(arguments, starter)
    for line in msrun.adopt(arguments, os.environ):
        _say(line)
    if not msrun.starts_here(arguments):
        return COMPLETED
    on_failure = OnFailure.parse(arguments.on_failure or os.environ.get(_ON_FAILURE_VARIABLE) or ABORT)
    job = _job(arguments)
    installation = _installation(arguments)
    if on_failure.kind == SHRINK and installation.vendor != "openmpi":
        _say(f"warning: {installation.library} ends the job with its first rank; a failure restarts the job instead")
        on_failure = on_failure.without_shrinking()
    settings = {**job.settings, _ON_FAILURE_VARIABLE: on_failure.kind}
    job = replace(job, survives_deaths=on_failure.kind == SHRINK, settings=settings)
    command = build(job, installation, os.environ)
    if arguments.dry_run:
        table = RankTable.load(job.rank_table) if job.rank_table else None
        print(mapping(job.ranks, job.placement, table), command, sep="\n\n")
        return COMPLETED
    _say(_summary(job, installation, command))
    outcome = _supervised(job, command, on_failure, arguments)
    if outcome.message:
        _say(f"error: {outcome.message}" if outcome.code not in (COMPLETED, REQUEUE) else outcome.message)
    return outcome.code


def _supervised(job: Job, command: Command, on_failure: OnFailure, arguments: argparse.Namespace) -> Outcome:
    preemption = preemption_signals(command.environment)
    terms = Terms(
        timeout=arguments.timeout,
        start_timeout=arguments.start_timeout,
        shown=_shown(arguments, job.ranks),
        spans_hosts=job.placement.spans_hosts,
        survives_deaths=job.survives_deaths,
        preemption=preemption,
    )
    begin = time.monotonic()

    def start(attempt: int) -> Outcome:
        spent = time.monotonic() - begin
        return supervise(command, job.ranks, job.log_dir, replace(terms, attempt=attempt, spent=spent))

    return Attempts(on_failure.restarts, _say, preemption).run(start)


def _shown(arguments: argparse.Namespace, ranks: int) -> Shown:
    if arguments.tee_ranks is not None:
        return Shown.parse(arguments.tee_ranks, ranks)
    return Shown(tuple(range(ranks)), True) if arguments.tee else Shown()


def _installation(arguments: argparse.Namespace) -> Installation:
    if arguments.dry_run and arguments.mpi:
        # Naming the MPI makes a dry run work where there is none.
        return Installation(arguments.mpi, arguments.mpi, LAUNCHERS[arguments.mpi][0])
    return find_installation(arguments.mpi)


def _job(arguments: argparse.Namespace) -> Job:
    script = Script.parsed(arguments)
    script.check()
    path = arguments.rank_table or (Path(os.environ["RANK_TABLE_FILE"]) if os.environ.get("RANK_TABLE_FILE") else None)
    table = RankTable.load(path) if path else None
    ranks = _rank_count(arguments.ranks, table, path)
    for warning in device_warnings(table) if table else ():
        _say(f"warning: {path}: {warning}")
    hostfile = Hostfile.load(arguments.hostfile) if arguments.hostfile else None
    _shown(arguments, ranks)
    settings = rank_settings(arguments, os.environ)
    chaos = settings.get(CHAOS_VARIABLE) or os.environ.get(CHAOS_VARIABLE)
    if chaos:
        _say(FaultPlan.parse(chaos).words(ranks))
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
        settings=settings,
    )


def _rank_count(asked: int | None, table: RankTable | None, path: Path | None) -> int:
    if table is None:
        ranks = asked or allocated_ranks(os.environ)
        if ranks is None:
            raise LaunchError("how many ranks? give -n N, or a --rank-table")
        return ranks
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
