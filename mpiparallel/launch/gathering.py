"""The process that runs mpirun for ranks that a shell has started one by one; rank 0 of them starts it.

It has left its starter as a daemon does, and lives until mpirun ends: what rank 0 waits for is what it writes last.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from mpiparallel.cluster.exit_codes import COMPLETED
from mpiparallel.cluster.rank_table import RankTable
from mpiparallel.errors import MpiParallelError
from mpiparallel.launch.job.host_room import check_host
from mpiparallel.launch.job.host_selection import HostSelection, place
from mpiparallel.launch.job.installation import find_installation
from mpiparallel.launch.job.mpirun_command import Job, build
from mpiparallel.launch.job.script import Script
from mpiparallel.launch.watching.run_policy import RunPolicy
from mpiparallel.launch.watching.supervise import supervise

_STAND_IN = "mpiparallel.launch.rank.stand_in"
_ALLOCATION = "SLURM_"
# What says who the process is that starts this one.
_OWN_PLACE = ("RANK_ID", "DEVICE_ID")


def main(argv: Sequence[str] | None = None) -> int:
    """Leave the starter, start the job, and write what is to be said of its end to the file of ``--words``."""
    arguments = _parse(argv)
    if os.fork():
        os._exit(COMPLETED)
    os.setsid()
    try:
        words = run(arguments)
    except BaseException as error:
        # Nobody else would hear of it.
        _write(arguments.words, f"{type(error).__name__}: {error}")
        raise
    _write(arguments.words, words)
    return COMPLETED


def _write(number: int, words: str) -> None:
    with suppress(OSError):
        os.write(number, words.encode(errors="replace"))


def run(arguments: argparse.Namespace) -> str:
    """Run mpirun to its end; return what went wrong, empty if nothing did."""
    folder = Path(tempfile.mkdtemp(prefix="mpiparallel-"))
    try:
        job = _job(arguments, folder)
        installation = find_installation()
        command = build(job, installation, _variables(os.environ, job.selection))
        check_host(job.selection, installation.vendor, command.environment)
        policy = RunPolicy(spans_hosts=job.selection.spans_hosts, keeps_logs=False)
        outcome = supervise(command, job.ranks, folder, policy)
        return "" if outcome.code == COMPLETED else outcome.message
    except MpiParallelError as error:
        return str(error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mpiparallel.launch.gathering", allow_abbrev=False)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--digest", required=True)
    parser.add_argument("--seconds", required=True)
    parser.add_argument("--origin", required=True)
    parser.add_argument("--rank-table", type=Path)
    parser.add_argument("--words", type=int, required=True)
    return parser.parse_args(argv)


def _job(arguments: argparse.Namespace, folder: Path) -> Job:
    ranks = arguments.ranks
    selection = HostSelection((), ranks, False)
    if arguments.rank_table:
        selection = place(ranks, RankTable.load(arguments.rank_table), None, os.environ)
    words = ["--digest", arguments.digest, "--seconds", arguments.seconds, "--origin", arguments.origin]
    if selection.order:
        words += ["--rank-order", str(selection.order)]
    return Job(
        ranks=ranks,
        script=Script(_STAND_IN, tuple(words), is_module=True),
        selection=selection,
        log_dir=folder,
        python=sys.executable,
        cores=len(os.sched_getaffinity(0)),
        has_worker=False,
    )


def _variables(variables: Mapping[str, str], selection: HostSelection) -> dict[str, str]:
    """Return the environment for mpirun: where all ranks are here, it must not spread them over an allocation."""
    left_out = () if selection.hosts else (_ALLOCATION,)
    return {
        name: value for name, value in variables.items() if name not in _OWN_PLACE and not name.startswith(left_out)
    }


if __name__ == "__main__":
    sys.exit(main())
