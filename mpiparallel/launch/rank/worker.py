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
import traceback
from collections.abc import MutableMapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NoReturn

from mpiparallel.cluster.environment import Environment
from mpiparallel.cluster.exit_codes import FAILED, HUNG, REFUSED, REQUEUE, SIGNALLED
from mpiparallel.cluster.preemption_signal import heed_preemption
from mpiparallel.cluster.processor import read_core_type
from mpiparallel.cluster.rank_order import RankOrder
from mpiparallel.cluster.rank_table import RankTable
from mpiparallel.errors import LaunchError, MpiParallelError
from mpiparallel.flight import format as flight_format
from mpiparallel.flight.diagnosis import Diagnosis
from mpiparallel.flight.recorder import FILE_VARIABLE, FlightRecorder
from mpiparallel.flight.watchdog import Watchdog, watchdog_seconds
from mpiparallel.launch.job.rank_folder import ATTEMPT_VARIABLE, Failure, RankFolder
from mpiparallel.launch.job.script import Script
from mpiparallel.launch.line import message
from mpiparallel.launch.line.address import VARIABLE, LineAddress
from mpiparallel.launch.line.caller import Caller
from mpiparallel.launch.rank.ending import Ending
from mpiparallel.launch.rank.left_sessions import remove_left_sessions
from mpiparallel.launch.rank.parent_death import die_with_parent
from mpiparallel.launch.rank.traceback_report import report
from mpiparallel.launch.rank.unwatched import Unwatched

_ON_FAILURE_VARIABLE = "MPIPARALLEL_ON_FAILURE"


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one rank of a job has to do: ``script``, as one of ``ranks`` ranks that write under ``log_dir``.

    ``order`` says which rank each MPI process is, None where their numbers are the same. ``unwatched`` is there where
    no launcher watches the job.
    """

    ranks: int
    log_dir: Path
    script: Script
    rank_table: Path | None = None
    order: RankOrder | None = None
    debug: bool = False
    unwatched: Unwatched | None = None


def main(argv: Sequence[str] | None = None) -> None:
    """Run the script that ``argv`` names as this rank; does not return if the script fails."""
    arguments = _parse(argv)
    try:
        order = RankOrder.parse(arguments.rank_order) if arguments.rank_order else None
        script = Script.parsed(arguments)
    except MpiParallelError as error:
        _refuse(error)
    run_rank(Assignment(arguments.ranks, arguments.log_dir, script, arguments.rank_table, order, arguments.debug))


def run_rank(assignment: Assignment) -> None:
    """Run the script of ``assignment`` as the rank that the environment names; does not return if the script fails.

    The launcher, if there is one, is told how it ends. A failing rank leaves by ``os._exit``: without MPI_Finalize,
    which the ranks blocked in MPI would never answer, and mpirun then ends the job. One that ends with REQUEUE
    finalizes, so that the others can end likewise; under the launcher with code 0, as any other would make mpirun end
    them.
    """
    die_with_parent()
    # The script's own children must not call the launcher, and logs must not hold the token.
    line = os.environ.pop(VARIABLE, None)
    caller = None
    try:
        heed_preemption()
        environment, process = _identity(assignment)
        caller = _call(line, environment.rank, process) if line else None
        ending = _prepare(assignment, environment, caller)
    except MpiParallelError as error:
        _refuse(error, caller, assignment.unwatched)
    try:
        assignment.script.run()
    except SystemExit as end:
        if end.code == REQUEUE:
            ending.word = message.PREEMPTED
            if not line:
                raise
        elif end.code not in (None, 0):
            _fail(ending, end, _exit_code(end), assignment.debug)
    except BaseException as error:
        code = SIGNALLED + signal.SIGINT if isinstance(error, KeyboardInterrupt) else FAILED
        _fail(ending, error, code, assignment.debug)


def _refuse(error: MpiParallelError, caller: Caller | None = None, unwatched: Unwatched | None = None) -> NoReturn:
    """Say why this rank cannot begin, and leave: the others would wait for it in MPI_Init."""
    words = f"mpiparallel: error: {error}"
    if caller:
        failure = Failure(0, time.time(), str(error), words, REFUSED)
        caller.say(message.FAILED, failure=asdict(failure))
    if unwatched:
        unwatched.fail(words, REFUSED)
    print(words, file=sys.stderr, flush=True)
    sys.exit(REFUSED)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mpiparallel.launch.rank.worker", allow_abbrev=False)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--log-dir", type=Path, required=True)
    parser.add_argument("--rank-table", type=Path)
    parser.add_argument("--rank-order", help="ranks in the order of MPI's processes, where they differ: 4-7,0-3")
    parser.add_argument("--debug", action="store_true")
    Script.add_arguments(parser)
    return parser.parse_args(argv)


def _identity(assignment: Assignment) -> tuple[Environment, int]:
    """Return who this rank is, and the number that MPI's launcher calls it by."""
    environment = Environment.read()
    if environment.size != assignment.ranks:
        raise LaunchError(
            f"this rank is one of {environment.size}, the job has {assignment.ranks}: mpirun and the MPI library of "
            "mpi4py do not belong together; install one MPI only"
        )
    if assignment.order:
        return in_order(environment, assignment.order), environment.rank
    return environment, environment.rank


def _prepare(assignment: Assignment, environment: Environment, caller: Caller | None) -> Ending:
    seconds = watchdog_seconds(os.environ)
    table = RankTable.load(assignment.rank_table) if assignment.rank_table else None
    name_rank(os.environ, environment, table)
    folder = RankFolder(assignment.log_dir, environment.rank)
    try:
        _fill(folder)
        stack = _keep_output(folder)
    except OSError as error:
        raise LaunchError(
            f"--log-dir {assignment.log_dir} on {os.uname().nodename}: {error.strerror}; give a folder that every host "
            "can write"
        ) from error
    if environment.local_rank == 0:
        remove_left_sessions()
    if assignment.unwatched:
        assignment.unwatched.begin(folder.log)
    ending = Ending(folder, environment.size, _recorder(folder, environment), caller, assignment.unwatched)
    watchdog = _watch(ending, seconds, stack)
    _say_at_exit(ending, watchdog)
    return ending


def _fill(folder: RankFolder) -> None:
    """Make the folder of this rank, and write down its environment there."""
    folder.path.mkdir(parents=True, exist_ok=True)
    attempt = os.environ.get(ATTEMPT_VARIABLE, "0")
    folder.begin(int(attempt) if attempt.isascii() and attempt.isdigit() else 0)
    os.environ[FILE_VARIABLE] = str(folder.flight)
    folder.environment.write_text(
        "".join(f"{name}={value}\n" for name, value in sorted(os.environ.items())), errors="surrogateescape"
    )


def _recorder(folder: RankFolder, environment: Environment) -> FlightRecorder:
    try:
        recorder = FlightRecorder(folder.flight, environment.rank, environment.size)
    except OSError:
        # Without room on the disk the job goes on, and its watchdog with it.
        recorder = FlightRecorder(None, environment.rank, environment.size)
    recorder.change_state(flight_format.RUNNING)
    return recorder


def _watch(ending: Ending, seconds: float | None, stack: int) -> Watchdog:
    log_dir, rank = ending.folder.log_dir, ending.folder.rank
    peers = {other: RankFolder(log_dir, other).flight for other in range(ending.size) if other != rank}

    def end_hang(diagnosis: Diagnosis) -> None:
        if not ending.caller:
            os.write(2, f"mpiparallel: the job hangs: {diagnosis.sentence}\n".encode())
        ending.fail(Failure(rank, time.time(), diagnosis.sentence, "", HUNG))

    survives = os.environ.get(_ON_FAILURE_VARIABLE) == "shrink"
    watchdog = Watchdog(ending.recorder, seconds, end_hang, stack, peers, deaths_are_survived=survives)
    watchdog.start()
    return watchdog


def _call(line: str, rank: int, process: int) -> Caller:
    about = {"rank": rank, "process": process, "pid": os.getpid(), "host": os.uname().nodename}

    def leave() -> None:
        os.write(2, f"mpiparallel: the launcher of the job is gone, so rank {rank} ends\n".encode())
        os._exit(FAILED)

    def go_on(reason: str) -> None:
        os.write(2, f"mpiparallel: the launcher cannot be reached ({reason}); rank {rank} goes on\n".encode())

    return Caller(LineAddress.parse(line), about, leave, go_on)


def in_order(environment: Environment, order: RankOrder) -> Environment:
    """Return the ``environment`` of an MPI process as that of the rank which it is by ``order``.

    Raises LaunchError where the order is of another number of ranks.
    """
    if len(order.ranks) != environment.size:
        raise LaunchError(
            f"the rank order {order} has {len(order.ranks)} ranks, the job {environment.size}; start the job anew"
        )
    return replace(environment, rank=order.ranks[environment.rank])


def name_rank(variables: MutableMapping[str, str], environment: Environment, table: RankTable | None) -> None:
    """Set in ``variables`` what MindSpore's scripts read: ``RANK_ID``, ``RANK_SIZE`` and ``DEVICE_ID``.

    The device is that of the rank table, or the local rank. MPI's world is made in the order of ``RANK_ID``.
    ``OPENBLAS_CORETYPE`` is set for this host's processor, as the host that started the job may have another.
    """
    device_id = table.device_of(environment.rank).device_id if table else environment.local_rank
    variables.update(RANK_ID=str(environment.rank), RANK_SIZE=str(environment.size), DEVICE_ID=str(device_id))
    core_type = read_core_type(variables)
    if core_type:
        variables["OPENBLAS_CORETYPE"] = core_type


def _keep_output(folder: RankFolder) -> int:
    """Let all that is printed go to the log; return where stacks go."""
    log = os.open(folder.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())
    os.close(log)
    for stream in (sys.stdout, sys.stderr):
        # Line by line, so that nothing said before a crash is lost and rank 0 can be read live.
        stream.reconfigure(line_buffering=True, encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    faulthandler.enable()
    stack = os.open(folder.stack, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    faulthandler.register(signal.SIGTERM, file=stack, all_threads=True, chain=True)
    return stack


def _say_at_exit(ending: Ending, watchdog: Watchdog) -> None:
    """Say that the rank ends well after all that the script does at its exit: what is registered first runs last."""
    process = os.getpid()

    def say() -> None:
        if os.getpid() == process:
            watchdog.stop()
            ending.say()

    atexit.register(say)


def _exit_code(end: SystemExit) -> int:
    return (end.code & 0xFF or 1) if isinstance(end.code, int) else 1


def _fail(ending: Ending, error: BaseException, code: int, debug: bool) -> NoReturn:
    moment = time.time()
    text = report(error, debug)
    summary = "".join(traceback.format_exception_only(type(error), error)).strip()
    if not isinstance(error, SystemExit):
        sys.stderr.write(text)
    elif isinstance(error.code, str):
        print(error.code, file=sys.stderr)
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    ending.fail(Failure(ending.folder.rank, moment, summary, text, code))


if __name__ == "__main__":
    main()
