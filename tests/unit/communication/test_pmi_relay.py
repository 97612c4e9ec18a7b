"""What a rank and SLURM's pmi2 say to each other through the relay."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

_STEP = {"SLURM_STEP_ID": "0", "PMI_RANK": "1"}
_FOLDER = Path(__file__).parents[3] / "mpiparallel/communication/mpi"
# It says what it was answered. It takes the relay without the rest of the package, which would start MPI.
_RANK = """
import os, socket
from pmi_relay import relay_pmi2
relay_pmi2(os.environ)
connection = socket.socket(fileno=int(os.environ["PMI_FD"]))
while True:
    question = input()
    connection.sendall(question.encode() + b"\\n")
    print(connection.recv(4096).decode(), end="", flush=True)
"""


def rank(server: socket.socket, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    number = server.fileno()
    known = {**os.environ, **environment, "PMI_FD": str(number), "PYTHONPATH": str(_FOLDER)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        [sys.executable, "-c", _RANK], env=known, pass_fds=(number,), start_new_session=True, **pipes
    )


def answer_to(process: subprocess.Popen[str], slurm: socket.socket, question: str, answer: str) -> str:
    """Let the rank ask, check that SLURM reads that, and return what the rank reads of SLURM's answer."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(f"{question}\n")
    process.stdin.flush()
    assert slurm.recv(4096).decode() == f"{question}\n"
    slurm.sendall(f"{answer}\n".encode())
    return process.stdout.readline().rstrip("\n")


@pytest.mark.parametrize(
    ("environment", "longest"),
    [(_STEP, 896), (_STEP | {"MPI_LOCALRANKID": "1"}, 1024), ({"PMI_RANK": "1"}, 1024)],
    ids=["srun", "mpiexec in an allocation", "mpiexec"],
)
def test_ranks_of_srun_are_asked_for_lines_that_slurm_reads_whole_and_nothing_else_changes(
    environment: Mapping[str, str], longest: int
) -> None:
    slurm, other = socket.socketpair()
    with slurm, other:
        process = rank(other, environment)
        other.close()
        maxes = "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max={}"
        assert int(answer_to(process, slurm, "cmd=get_maxes", maxes.format(1024)).rsplit("=", 1)[1]) == longest
        value = "cmd=get_result rc=0 value=vallen_max=1024"
        assert answer_to(process, slurm, "cmd=get kvsname=1.0 key=a", value) == value
        # SLURM passes the job's signals on to all processes of a step: what only ends the rank's work is not for it.
        relays = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
        assert len(relays) == (longest < 1024)
        # Who reads what the rank prints would else wait for the relay too.
        assert {Path(f"/proc/{relay}/fd/{number}").readlink() for relay in relays for number in (0, 1)} <= {
            Path(os.devnull)
        }
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            for relay in relays:
                os.kill(int(relay), number)
        assert answer_to(process, slurm, "cmd=barrier_in", "cmd=barrier_out rc=0") == "cmd=barrier_out rc=0"
        process.kill()
        process.communicate()
        assert slurm.recv(1) == b""


@pytest.fixture(scope="module")
def relay() -> ModuleType:
    """The module without the rest of its package, which would start MPI."""
    description = spec_from_file_location("pmi_relay", _FOLDER / "pmi_relay.py")
    assert description is not None
    assert description.loader is not None
    found = module_from_spec(description)
    description.loader.exec_module(found)
    return found


def test_what_one_side_says_is_handed_to_the_other_until_one_leaves(relay: ModuleType) -> None:
    (slurm, server), (rank, other) = socket.socketpair(), socket.socketpair()
    with slurm, server, rank, other:
        between = threading.Thread(target=relay._relay, args=(server, other), daemon=True)
        between.start()
        for one, another, said, heard in (
            (rank, slurm, b"cmd=maxes vallen_max=10", b"cmd=maxes vallen_max=10"),
            (slurm, rank, b"cmd=maxes rc=0 vallen_max=1024\n", b"cmd=maxes rc=0 vallen_max=0896\n"),
            (slurm, rank, b"cmd=got vallen_max=1024\n", b"cmd=got vallen_max=1024\n"),
        ):
            one.sendall(said)
            assert another.recv(100) == heard
        rank.close()
        between.join(60.0)
        assert not between.is_alive()


@pytest.mark.parametrize("words", ["", "-1", "socket", "\N{SUPERSCRIPT TWO}"])
def test_a_step_of_srun_without_the_number_of_a_connection_is_left_alone(relay: ModuleType, words: str) -> None:
    variables = {**_STEP, "PMI_FD": words}
    relay.relay_pmi2(variables)
    assert variables == {**_STEP, "PMI_FD": words}
