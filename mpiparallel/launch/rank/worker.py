"""What runs on each rank: name the rank to the script, keep its output, and end the whole job when the script fails.

Started by `mpiparallel.launch.job.mpirun_command` under mpirun as ``python -m mpiparallel.launch.rank.worker``.
"""

from __future__ import annotations

import argparse
import atexit
import faulthandler
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import NoReturn

from mpiparallel.cluster.environment import Environment
from mpiparallel.cluster.exit_codes import FAILED, HUNG, REFUSED, REQUEUE, SIGNALLED
from mpiparallel.cluster.flight import format as flight_format
from mpiparallel.cluster.flight.hang_diagnosis import Diagnosis
from mpiparallel.cluster.flight.recorder import FILE_VARIABLE, FlightRecorder
from mpiparallel.cluster.flight.watchdog import Watchdog, watchdog_seconds
from mpiparallel.cluster.preemption_signal import heed_preemption
from mpiparallel.cluster.rank_order import RankOrder
from mpiparallel.cluster.rank_table import RankTable
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import LaunchError, MpiParallelError
from mpiparallel.launch.control import message
from mpiparallel.launch.control.address import VARIABLE, ControlAddress
from mpiparallel.launch.control.control_client import ControlClient
from mpiparallel.launch.job.console import Console
from mpiparallel.launch.job.environment_log import write_environment
from mpiparallel.launch.job.lost_output import LostOutput
from mpiparallel.launch.job.rank_folder import ATTEMPT_VARIABLE, Failure, RankFolder
from mpiparallel.launch.job.script import Script
from mpiparallel.launch.rank.exit_reporter import ExitReporter
from mpiparallel.launch.rank.failing import fail
from mpiparallel.launch.rank.identity import identity, name_rank
from mpiparallel.launch.rank.left_sessions import remove_left_sessions
from mpiparallel.launch.rank.log_stream import print_to_log
from mpiparallel.launch.rank.process_tree import die_with_parent
from mpiparallel.launch.rank.standalone import Standalone
from mpiparallel.launch.rank.subreaper import stand_guard

_ON_FAILURE_VARIABLE = "MPIPARALLEL_ON_FAILURE"


@dataclass(frozen=True)
class WorkerSettings:
    """What one rank of a job has to do: ``script``, as one of ``ranks`` ranks that write under ``log_dir``.

    ``order`` says which rank each MPI process is, None where their numbers are the same. ``standalone`` is there where
    no launcher watches the job. Where it ``keeps_children``, what the script has started may outlive the rank.
    """

    ranks: int
    log_dir: Path
    script: Script
    rank_table: Path | None = None
    order: RankOrder | None = None
    debug: bool = False
    standalone: Standalone | None = None
    keeps_children: bool = False


def main(argv: Sequence[str] | None = None) -> None:
    """Run the script that ``argv`` names as this rank; does not return if the script fails."""
    arguments = _parse(argv)
    try:
        order = RankOrder.parse(arguments.rank_order) if arguments.rank_order else None
        script = Script.parsed(arguments)
    except MpiParallelError as error:
        _refuse(error)
    run_rank(
        WorkerSettings(
            arguments.ranks,
            arguments.log_dir,
            script,
            arguments.rank_table,
            order,
            arguments.debug,
            keeps_children=arguments.keep_children,
        )
    )


def run_rank(settings: WorkerSettings) -> None:
    """Run the script of ``settings`` as the rank that the environment names; does not return if the script fails.

    The launcher, if there is one, is told how it ends. A failing rank leaves by ``os._exit``: without MPI_Finalize,
    which the ranks blocked in MPI would never answer, and mpirun then ends the job. One that ends with REQUEUE
    finalizes, so that the others can end likewise. Under the launcher it ends with code 0, as any other would make
    mpirun end them.
    """
    die_with_parent()
    # The script's own children must not call the launcher, and logs must not hold the token.
    address = os.environ.pop(VARIABLE, None)
    client = None
    try:
        heed_preemption()
        environment, process = identity(settings.ranks, settings.order)
        starter = os.getpid()
        if not settings.keeps_children:
            folder = RankFolder(settings.log_dir, environment.rank)
            stand_guard(folder, partial(_remark, settings, folder))
        client = _connect(address, environment.rank, process, starter) if address else None
        reporter = _prepare(settings, environment, client)
    except MpiParallelError as error:
        _refuse(error, client, settings.standalone)
    try:
        settings.script.run()
    except SystemExit as end:
        if end.code == REQUEUE:
            reporter.word = message.PREEMPTED
            if not address:
                raise
        elif end.code not in (None, 0):
            fail(reporter, end, _exit_code(end), settings.debug)
    except BaseException as error:
        code = SIGNALLED + signal.SIGINT if isinstance(error, KeyboardInterrupt) else FAILED
        fail(reporter, error, code, settings.debug)
    reporter.leave()


def _refuse(
    error: MpiParallelError, client: ControlClient | None = None, standalone: Standalone | None = None
) -> NoReturn:
    """Say why this rank cannot begin, and leave: the others would wait for it in MPI_Init."""
    if client:
        failure = Failure(0, time.time(), str(error), f"mpiparallel: error: {error}", REFUSED)
        client.say(message.FAILED, failure=asdict(failure))
    if standalone:
        standalone.fail(f"error: {error}", REFUSED)
    Console().say(f"error: {error}")
    sys.exit(REFUSED)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mpiparallel.launch.rank.worker", allow_abbrev=False)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--log-dir", type=Path, required=True)
    parser.add_argument("--rank-table", type=Path)
    parser.add_argument("--rank-order", help="ranks in the order of MPI's processes, where they differ: 4-7,0-3")
    parser.add_argument("--debug", action="store_true")
    parser.add_argument("--keep-children", action="store_true")
    Script.add_arguments(parser)
    return parser.parse_args(argv)


def _remark(settings: WorkerSettings, folder: RankFolder, words: str) -> None:
    """Say ``words`` of a rank that has ended."""
    if settings.standalone:
        os.write(2, f"{words}\n".encode(errors="replace"))
    with folder.log.open("a", errors="replace") as log:
        log.write(f"{words}\n")


def _prepare(settings: WorkerSettings, environment: Environment, client: ControlClient | None) -> ExitReporter:
    seconds = watchdog_seconds(os.environ)
    table = RankTable.load(settings.rank_table) if settings.rank_table else None
    name_rank(os.environ, environment, table)
    folder = RankFolder(settings.log_dir, environment.rank)
    try:
        _fill(folder)
        lost, stack = _keep_output(folder)
    except OSError as error:
        raise LaunchError(
            f"--log-dir {settings.log_dir} on {os.uname().nodename}: {error.strerror}; give a folder that every host "
            "can write, with room in it"
        ) from error
    if environment.local_rank == 0:
        remove_left_sessions()
    if settings.standalone:
        settings.standalone.begin(folder.log)
    recorder = _recorder(folder, environment)
    reporter = ExitReporter(folder, environment.size, recorder, client, settings.standalone, lost=lost)
    reporter.watchdog = _watch(reporter, seconds, stack)
    _say_at_exit(reporter, reporter.watchdog)
    return reporter


def _fill(folder: RankFolder) -> None:
    """Make the folder of this rank, and write down its environment there."""
    folder.path.mkdir(parents=True, exist_ok=True)
    told = os.environ.get(ATTEMPT_VARIABLE, "0")
    attempt = int(told) if told.isascii() and told.isdigit() else 0
    folder.begin(attempt)
    os.environ[FILE_VARIABLE] = str(folder.flight)
    try:
        write_environment(folder.environment, os.environ)
    except OSError:
        # A restart goes on where the disk has become full meanwhile.
        if not attempt:
            raise


def _recorder(folder: RankFolder, environment: Environment) -> FlightRecorder:
    try:
        recorder = FlightRecorder(folder.flight, environment.rank, environment.size)
    except OSError:
        # Without room on the disk the job goes on, and its watchdog with it.
        recorder = FlightRecorder(None, environment.rank, environment.size)
    recorder.change_state(flight_format.RUNNING)
    return recorder


def _watch(reporter: ExitReporter, seconds: float | None, stack: int) -> Watchdog:
    log_dir, rank = reporter.folder.log_dir, reporter.folder.rank
    peers = {other: RankFolder(log_dir, other).flight for other in range(reporter.size) if other != rank}

    def end_hang(diagnosis: Diagnosis) -> None:
        if reporter.is_failing:
            return
        last_words = ""
        if not reporter.client:
            last_words = f"mpiparallel: the job hangs: {diagnosis.sentence}\n"
        reporter.fail(Failure(rank, time.time(), diagnosis.sentence, "", HUNG), last_words)

    survives = os.environ.get(_ON_FAILURE_VARIABLE) == "shrink"
    watchdog = Watchdog(reporter.recorder, seconds, end_hang, stack, peers, deaths_are_survived=survives)
    watchdog.start()
    return watchdog


def _connect(address: str, rank: int, process: int, starter: int) -> ControlClient:
    about = {"rank": rank, "process": process, "pid": os.getpid(), "starter": starter, "host": os.uname().nodename}

    def leave() -> None:
        try:
            os.write(2, f"mpiparallel: the launcher of the job is gone, so rank {rank} ends\n".encode())
        finally:
            os._exit(FAILED)

    def go_on(reason: str) -> None:
        with suppress(OSError):
            os.write(2, f"mpiparallel: the launcher cannot be reached ({reason}); rank {rank} goes on\n".encode())

    return ControlClient(ControlAddress.parse(address), about, leave, go_on)


def _keep_output(folder: RankFolder) -> tuple[LostOutput, int]:
    """Let all that is printed go to the log; return what is lost of it, and where stacks go."""
    log = os.open(folder.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for number in (1, 2):
        os.dup2(log, number)
    if log > 2:
        os.close(log)
    lost = print_to_log()
    faulthandler.enable()
    stack = os.open(folder.stack, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    faulthandler.register(signal.SIGTERM, file=stack, all_threads=True, chain=True)
    return lost, stack


def _say_at_exit(reporter: ExitReporter, watchdog: Watchdog) -> None:
    """Say that the rank ends well after all that the script does at its exit: what is registered first runs last."""
    process = os.getpid()

    def say() -> None:
        if os.getpid() == process:
            watchdog.stop()
            reporter.say()

    atexit.register(say)


def _exit_code(end: SystemExit) -> int:
    return (end.code & 0xFF or 1) if isinstance(end.code, int) else 1


if __name__ == "__main__":
    main()
