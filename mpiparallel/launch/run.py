"""``mpiparallel run``: run a script on many ranks."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mpiparallel.cluster.device_rules import device_warnings
from mpiparallel.cluster.exit_codes import COMPLETED, REQUEUE
from mpiparallel.cluster.fault_plan import FaultPlan
from mpiparallel.cluster.flight.watchdog import watchdog_seconds
from mpiparallel.cluster.hostfile import Hostfile
from mpiparallel.cluster.job_start import JOB_VARIABLE
from mpiparallel.cluster.preemption_signal import preemption_signals
from mpiparallel.cluster.processor import read_core_type
from mpiparallel.cluster.rank_table import RankTable
from mpiparallel.errors import LaunchError, RankTableError
from mpiparallel.launch.command_line.argument_types import file_path, rank_count, seconds
from mpiparallel.launch.job import msrun
from mpiparallel.launch.job.console import Console
from mpiparallel.launch.job.host_room import check_host
from mpiparallel.launch.job.host_selection import allocated_ranks, place
from mpiparallel.launch.job.installation import LAUNCHERS, Installation, find_installation
from mpiparallel.launch.job.mapping import mapping, places
from mpiparallel.launch.job.mpirun_command import Job, MpirunCommand, build
from mpiparallel.launch.job.on_failure import ABORT, SHRINK, OnFailure
from mpiparallel.launch.job.output_selection import OutputSelection
from mpiparallel.launch.job.rank_settings import CHAOS_VARIABLE, rank_settings
from mpiparallel.launch.job.script import Script
from mpiparallel.launch.job.terminal_text import printable
from mpiparallel.launch.rank import under_launcher
from mpiparallel.launch.rank.starter import Starter
from mpiparallel.launch.watching.attempts import Attempts
from mpiparallel.launch.watching.job_outcome import JobOutcome
from mpiparallel.launch.watching.run_policy import START_SECONDS, RunPolicy
from mpiparallel.launch.watching.supervise import LAUNCHER_LOG, supervise

if TYPE_CHECKING:
    from mpiparallel.launch.command_line.parser import Subparsers

NAME = "run"
_ON_FAILURE_VARIABLE = "MPIPARALLEL_ON_FAILURE"
_JOB_BYTES = 8


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``mpiparallel run``."""
    parser = subparsers.add_parser(
        NAME,
        help="run a script on many ranks",
        usage=f"mpiparallel {NAME} [options] script.py [arguments of the script]",
        description="Run a script on many ranks. Each prints to device<rank>/train.log<rank>, rank 0 also here.",
        examples=(
            "mpiparallel run -n 4 train.py --epochs 3",
            "mpiparallel run -n 4 --tee -m package.train",
            "mpiparallel run --rank-table rank_table_8pcs.json --log-dir logs train.py",
            "mpiparallel run -n 16 --hostfile hosts --on-failure restart:2 train.py",
            "mpiparallel run -n 4 --dry-run train.py",
        ),
    )
    parser.add_argument(
        "-n", "--ranks", type=rank_count, metavar="N", help="how many ranks (default: those of the rank table)"
    )
    parser.add_argument(
        "--rank-table", type=file_path, metavar="FILE", help="HCCL rank table (default: $RANK_TABLE_FILE)"
    )
    parser.add_argument(
        "--hostfile",
        type=file_path,
        metavar="FILE",
        help="hosts and their slots, in any dialect; see hostfiles/README.md",
    )
    parser.add_argument("--mpi", choices=sorted(LAUNCHERS), help="refuse any other MPI than this")
    parser.add_argument(
        "--log-dir", type=file_path, default=Path(), metavar="DIR", help="where device<rank>/ goes (default: here)"
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
    parser.add_argument("--json", action="store_true", help="with --dry-run: print that as JSON")
    msrun.add_arguments(parser)
    Script.add_arguments(parser)


def _add_watching(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tee", action="store_true", help="show what all ranks print, each line behind its [rank]")
    parser.add_argument("--tee-ranks", metavar="LIST", help="show what these ranks print: 0,3-5")
    parser.add_argument(
        "--watchdog",
        metavar="S",
        help="end a job whose ranks wait in one collective for longer than S seconds, or do not leave so long after "
        "their scripts have ended, with exit code 86 (default: 600; off)",
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
    parser.add_argument(
        "--keep-children",
        action="store_true",
        help="let processes that ranks have started go on after them (default: they are ended)",
    )
    parser.add_argument("--chaos", metavar="PLAN", help="strike the job with faults on purpose: kill@3:418, or seed=7")


def execute(arguments: argparse.Namespace) -> int:
    """Run the job that ``arguments`` describe; return 0 if every rank ended well, else its exit code.

    Where srun or mpirun has started this process as a rank, it is that rank.
    """
    starter = Starter.of(os.environ)
    if starter:
        return under_launcher.execute(arguments, starter)
    console = Console()
    for line in msrun.adopt(arguments, os.environ):
        console.say(line)
    if not msrun.starts_here(arguments):
        return COMPLETED
    if arguments.json and not arguments.dry_run:
        raise LaunchError("--json: goes with --dry-run; what a job prints is its script's")
    job = _job(arguments, console)
    on_failure = OnFailure.parse(arguments.on_failure or os.environ.get(_ON_FAILURE_VARIABLE) or ABORT)
    installation = _installation(arguments)
    if on_failure.kind == SHRINK and installation.vendor != "openmpi":
        console.say(
            f"warning: {installation.library} ends the job with its first rank; a failure restarts the job instead"
        )
        on_failure = on_failure.without_shrinking()
    settings = {**job.settings, _ON_FAILURE_VARIABLE: on_failure.kind}
    job = replace(job, survives_deaths=on_failure.kind == SHRINK, settings=settings)
    command = build(job, installation, os.environ)
    if arguments.dry_run:
        _show_plan(job, installation, command, arguments.json)
        return COMPLETED
    for warning in check_host(job.selection, installation.vendor, command.environment):
        console.say(f"warning: {warning}")
    console.say(_summary(job, installation, command))
    outcome = _supervised(job, command, on_failure, arguments, console)
    if outcome.message:
        console.say(f"error: {outcome.message}" if outcome.code not in (COMPLETED, REQUEUE) else outcome.message)
    console.close(job.log_dir / LAUNCHER_LOG)
    return outcome.code


def _show_plan(job: Job, installation: Installation, command: MpirunCommand, as_json: bool) -> None:
    table = RankTable.load(job.rank_table) if job.rank_table else None
    if not as_json:
        print(printable(mapping(job.ranks, job.selection, table)), command, sep="\n\n")
        return
    told = {
        "mpi": installation.vendor,
        "ranks": [place._asdict() for place in places(job.ranks, job.selection, table)],
        "command": list(command.argv),
        "environment": dict(command.settings),
        "hostfile": None if command.hostfile is None else str(command.hostfile[0]),
        "hosts": [{"name": host.name, "slots": host.slots} for host in job.selection.hosts],
    }
    print(json.dumps(told))


def _supervised(
    job: Job, command: MpirunCommand, on_failure: OnFailure, arguments: argparse.Namespace, console: Console
) -> JobOutcome:
    preemption = preemption_signals(command.environment)
    policy = RunPolicy(
        timeout=arguments.timeout,
        start_timeout=arguments.start_timeout,
        shown=_shown(arguments, job.ranks),
        spans_hosts=job.selection.spans_hosts,
        survives_deaths=job.survives_deaths,
        preemption=preemption,
        watchdog=watchdog_seconds(command.environment),
    )
    begin = time.monotonic()
    named = command.with_variables({JOB_VARIABLE: secrets.token_hex(_JOB_BYTES)})

    def start(attempt: int) -> JobOutcome:
        spent = time.monotonic() - begin
        return supervise(named, job.ranks, job.log_dir, replace(policy, attempt=attempt, spent=spent), console)

    return Attempts(on_failure.restarts, console.say, preemption).run(start)


def _shown(arguments: argparse.Namespace, ranks: int) -> OutputSelection:
    if arguments.tee_ranks is not None:
        return OutputSelection.parse(arguments.tee_ranks, ranks)
    return OutputSelection(tuple(range(ranks)), True) if arguments.tee else OutputSelection()


def _installation(arguments: argparse.Namespace) -> Installation:
    if arguments.dry_run and arguments.mpi:
        # Naming the MPI makes a dry run work where there is none.
        return Installation(arguments.mpi, arguments.mpi, LAUNCHERS[arguments.mpi][0])
    return find_installation(arguments.mpi)


def _job(arguments: argparse.Namespace, console: Console) -> Job:
    script = Script.parsed(arguments)
    script.check()
    path = arguments.rank_table or (Path(os.environ["RANK_TABLE_FILE"]) if os.environ.get("RANK_TABLE_FILE") else None)
    table = RankTable.load(path) if path else None
    hostfile = Hostfile.load(arguments.hostfile) if arguments.hostfile else None
    ranks = _rank_count(arguments.ranks, table, path)
    for warning in device_warnings(table) if table else ():
        console.say(f"warning: {path}: {warning}")
    _shown(arguments, ranks)
    settings = rank_settings(arguments, os.environ)
    chaos = settings.get(CHAOS_VARIABLE) or os.environ.get(CHAOS_VARIABLE)
    if chaos:
        console.say(FaultPlan.parse(chaos).words(ranks))
    return Job(
        ranks=ranks,
        script=script,
        selection=place(ranks, table, hostfile, os.environ),
        log_dir=arguments.log_dir.absolute(),
        python=sys.executable,
        cores=len(os.sched_getaffinity(0)),
        core_type=read_core_type(os.environ),
        debug=arguments.debug,
        keeps_children=arguments.keep_children,
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


def _summary(job: Job, installation: Installation, command: MpirunCommand) -> str:
    words = [f"{job.ranks} ranks", installation.library]
    words += [f"{name}={command.environment[name]}" for name in _told(command)]
    return ", ".join([*words, f"logs in {job.log_dir}/device<rank>/"])


def _told(command: MpirunCommand) -> Sequence[str]:
    return [name for name in ("OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE") if name in command.environment]
