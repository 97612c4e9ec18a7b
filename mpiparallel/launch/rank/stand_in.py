"""What mpirun starts in place of a rank that was started by hand: it hands that its place in the job over, and stays.

Started by `mpiparallel.launch.gathering` under mpirun as ``python -m mpiparallel.launch.rank.stand_in``.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from types import FrameType
from typing import Any

from mpiparallel.cluster.environment import Environment
from mpiparallel.cluster.exit_codes import FAILED as FAILED_CODE
from mpiparallel.cluster.exit_codes import SIGNALLED
from mpiparallel.cluster.gathering import meeting_point
from mpiparallel.cluster.gathering.hand_started import SECONDS_VARIABLE
from mpiparallel.cluster.gathering.meeting_point import ENDED, FAILED, IDENTITY, STAND_IN, GatheringMessage
from mpiparallel.cluster.preemption_signal import preemption_signals
from mpiparallel.cluster.rank_order import RankOrder
from mpiparallel.errors import LaunchError, MpiParallelError
from mpiparallel.launch.control import message as control_message
from mpiparallel.launch.control.address import VARIABLE, ControlAddress
from mpiparallel.launch.control.control_client import ControlClient
from mpiparallel.launch.job.rank_folder import Failure
from mpiparallel.launch.rank.process_tree import die_with_parent

_NAP_SECONDS = 0.05
_IDENTITY_PREFIXES = ("HYDI_", "HYDRA_", "MPI_LOCAL", "OMPI_", "PMIX_", "PMI_", "PRTE_")
_FILE_VARIABLES = ("PMI_FD",)


def main(argv: Sequence[str] | None = None) -> int:
    """Stand in for the rank that the environment names until its process ends; return that one's exit code."""
    arguments = _parse(argv)
    die_with_parent()
    address = ControlAddress.parse(os.environ.pop(VARIABLE, ""))
    environment = Environment.read()
    rank = environment.rank
    if arguments.rank_order:
        rank = RankOrder.parse(arguments.rank_order).ranks[rank]
    about = {"rank": rank, "process": environment.rank, "pid": os.getpid(), "host": os.uname().nodename}
    # Without the launcher nobody would notice the end of the job; the process ends with its stand-in.
    client = ControlClient(address, about, lambda: os._exit(FAILED_CODE), lambda reason: os._exit(FAILED_CODE))
    try:
        failure = _stand_in(arguments, rank, client)
    except MpiParallelError as error:
        failure = Failure(rank, time.time(), str(error), "", FAILED_CODE)
    if failure:
        client.say(control_message.FAILED, failure=asdict(failure))
        return failure.exit_code
    client.say(control_message.COMPLETED)
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mpiparallel.launch.rank.stand_in", allow_abbrev=False)
    parser.add_argument("--digest", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--origin", type=json.loads, required=True)
    parser.add_argument("--rank-order", help="ranks in the order of MPI's processes, where they differ: 4-7,0-3")
    return parser.parse_args(argv)


def _stand_in(arguments: argparse.Namespace, rank: int, client: ControlClient) -> Failure | None:
    connection = _reach(arguments.digest, rank, arguments.seconds)
    process = meeting_point.process_of(connection)
    for number in preemption_signals():
        signal.signal(number, _passing_to(process))
    meeting_point.send(connection, STAND_IN)
    # In MPI_Init, nobody could say any more which ones have not come.
    client.wait_until_all_are_ready()
    hand_over(connection, os.environ, arguments.origin)
    last: GatheringMessage | None = None
    # That it ends well counts when it has really ended: MPI may end after the program's last line.
    while heard := meeting_point.receive(connection):
        last = heard
        if last.word == FAILED:
            break
    return _failure(rank, process, last)


def hand_over(connection: socket.socket, variables: Mapping[str, str], origin: Mapping[str, Any]) -> None:
    """Give what MPI knows this process by to the one at the other end: variables, and the open files they name.

    The files stay open here, because mpiexec takes their end for the end of the rank. It would kill the others before
    this one has told the launcher which was first.
    """
    identity = {name: value for name, value in variables.items() if name.startswith(_IDENTITY_PREFIXES)}
    named = [name for name in _FILE_VARIABLES if identity.get(name, "").isdecimal()]
    files = [int(identity[name]) for name in named]
    meeting_point.send(connection, IDENTITY, files, variables=identity, named=named, origin=dict(origin))


def _reach(digest: str, rank: int, seconds: float) -> socket.socket:
    deadline = time.monotonic() + seconds
    while True:
        try:
            return meeting_point.call(digest, rank)
        except OSError as error:
            if time.monotonic() > deadline:
                raise LaunchError(
                    f"rank {rank} was not started on {os.uname().nodename} within {seconds:g} s ({SECONDS_VARIABLE})"
                ) from error
        time.sleep(_NAP_SECONDS)


def _passing_to(process: int) -> Any:
    def pass_on(number: int, frame: FrameType | None) -> None:
        # 0 would mean this one's own group: it is what the kernel tells of a process in another container.
        if process > 0:
            with suppress(ProcessLookupError):
                os.kill(process, number)

    return pass_on


def _failure(rank: int, process: int, last: GatheringMessage | None) -> Failure | None:
    if last is not None and last.word == ENDED:
        return None
    killed = Failure(
        rank, time.time(), f"process {process} was killed, or left by os._exit", "", SIGNALLED + signal.SIGKILL
    )
    if last is None or last.word != FAILED:
        return killed
    told = last.fields
    fields = {"exception": told.get("summary"), "traceback": told.get("traceback"), "exit_code": told.get("code")}
    return Failure.parsed(rank, {"time": killed.time, **fields}) or killed


if __name__ == "__main__":
    sys.exit(main())
