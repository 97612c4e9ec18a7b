"""What runs on each rank: name the rank to the script, keep its output, and end the whole job when the script fails.

Started by `mpiparallel.launch.command` under mpirun as ``python -m mpiparallel.launch.worker``.
"""

from __future__ import annotations

import argparse
import atexit
import faulthandler
import os
import runpy
import signal
import sys
import time
import traceback
from collections.abc import MutableMapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from mpiparallel.cluster.environment import Environment
from mpiparallel.cluster.processor import read_core_type
from mpiparallel.cluster.rank_order import RankOrder
from mpiparallel.cluster.rank_table import RankTable
from mpiparallel.errors import LaunchError, MpiParallelError
from mpiparallel.launch.parent_death import die_with_parent
from mpiparallel.launch.rank_folder import Failure, RankFolder
from mpiparallel.launch.script import Script

_PACKAGE = str(Path(__file__).parent.parent)
_LAUNCHING_FILES = frozenset({__file__, Script.run.__code__.co_filename, runpy.__file__, "<frozen runpy>"})


def main(argv: Sequence[str] | None = None) -> None:
    """Run the script that ``argv`` names as this rank; does not return if the script fails.

    A failing rank leaves by ``os._exit``: without MPI_Finalize, which the ranks blocked in MPI would never answer, and
    mpirun then ends the job.
    """
    die_with_parent()
    arguments = _parse(argv)
    try:
        folder = _prepare(arguments)
    except MpiParallelError as error:
        sys.exit(f"mpiparallel: error: {error}")
    try:
        Script.parsed(arguments).run()
    except SystemExit as end:
        if end.code not in (None, 0):
            _fail(folder, end, _exit_code(end), arguments.debug)
    except BaseException as error:
        _fail(folder, error, 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1, arguments.debug)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mpiparallel.launch.worker", allow_abbrev=False)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--log-dir", type=Path, required=True)
    parser.add_argument("--rank-table", type=Path)
    parser.add_argument("--rank-order", help="ranks in the order of MPI's processes, where they differ: 4-7,0-3")
    parser.add_argument("--debug", action="store_true")
    Script.add_arguments(parser)
    return parser.parse_args(argv)


def _prepare(arguments: argparse.Namespace) -> RankFolder:
    environment = Environment.read()
    if environment.size != arguments.ranks:
        raise LaunchError(
            f"this rank is one of {environment.size}, the job has {arguments.ranks}: mpirun and the MPI library of "
            "mpi4py do not belong together; install one MPI only"
        )
    if arguments.rank_order:
        environment = in_order(environment, RankOrder.parse(arguments.rank_order))
    table = RankTable.load(arguments.rank_table) if arguments.rank_table else None
    name_rank(os.environ, environment, table)
    folder = RankFolder(arguments.log_dir, environment.rank)
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.clear()
    folder.environment.write_text(
        "".join(f"{name}={value}\n" for name, value in sorted(os.environ.items())), errors="surrogateescape"
    )
    _keep_output(folder)
    _mark_at_exit(folder)
    return folder


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


def _keep_output(folder: RankFolder) -> None:
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


def _mark_at_exit(folder: RankFolder) -> None:
    """Mark the rank as completed after all that the script does at its exit: what is registered first runs last."""
    process = os.getpid()

    def mark() -> None:
        if os.getpid() == process:
            folder.completed.write_text(f"{time.time()}\n")

    atexit.register(mark)


def _exit_code(end: SystemExit) -> int:
    return (end.code & 0xFF or 1) if isinstance(end.code, int) else 1


def _fail(folder: RankFolder, error: BaseException, code: int, debug: bool) -> None:
    moment = time.time()
    text = _report(error, debug)
    summary = "".join(traceback.format_exception_only(type(error), error)).strip()
    if not isinstance(error, SystemExit):
        sys.stderr.write(text)
    elif isinstance(error.code, str):
        print(error.code, file=sys.stderr)
    folder.write_failure(Failure(folder.rank, moment, summary, text, code))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _report(error: BaseException, debug: bool) -> str:
    """Return the traceback of ``error``; of what mpiparallel refuses only the user's own lines, unless ``debug``."""
    report = traceback.TracebackException(type(error), error, _script_frames(error.__traceback__))
    if isinstance(error, MpiParallelError) and not debug:
        own = [frame for frame in report.stack if not frame.filename.startswith(_PACKAGE)]
        report.stack = traceback.StackSummary.from_list(own)
        report.__cause__ = report.__context__ = None
    return "".join(report.format())


def _script_frames(frames: TracebackType | None) -> TracebackType | None:
    while frames is not None and frames.tb_frame.f_code.co_filename in _LAUNCHING_FILES:
        frames = frames.tb_next
    return frames


if __name__ == "__main__":
    main()
