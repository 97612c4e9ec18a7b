"""What stands in for a rank that was started by hand: what it hands over, and what it tells of that one's end."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Mapping
from typing import Any

import pytest

from mpiparallel.cluster.gathering import meeting_point
from mpiparallel.cluster.gathering.hand_started import SECONDS_VARIABLE
from mpiparallel.cluster.gathering.meeting_point import GatheringMessage
from mpiparallel.cluster.preemption_signal import preemption_signals
from mpiparallel.errors import LaunchError
from mpiparallel.launch.control.address import ControlAddress
from mpiparallel.launch.job.rank_folder import Failure
from mpiparallel.launch.rank import stand_in

FAILED = {"summary": "ValueError: odd", "traceback": "T", "code": 3}
KILLED = ("process 7 was killed, or left by os._exit", 137)


@pytest.mark.parametrize(
    ("last", "told"),
    [
        (GatheringMessage("ended"), None),
        (None, KILLED),
        (GatheringMessage("stand-in"), KILLED),
        (GatheringMessage("failed", FAILED), ("ValueError: odd", 3)),
        (GatheringMessage("failed", {**FAILED, "code": 0}), KILLED),
        (GatheringMessage("failed", {**FAILED, "summary": None}), KILLED),
    ],
)
def test_a_process_has_failed_as_it_says_and_is_killed_where_it_says_nothing_that_can_be(
    last: GatheringMessage | None, told: tuple[str, int] | None
) -> None:
    failure = stand_in._failure(1, 7, last)
    assert (failure and (failure.rank, failure.exception, failure.exit_code)) == (told and (1, *told))


def test_variables_of_mpi_and_the_files_that_they_name_are_handed_over_and_stay_open() -> None:
    kept = {
        "PMI_RANK": "1",
        "OMPI_COMM_WORLD_RANK": "1",
        "PMIX_RANK": "1",
        "PRTE_X": "1",
        "HYDI_CONTROL_FD": "9",
        "HYDRA_X": "1",
        "MPI_LOCALRANKID": "0",
    }
    own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reader, writer = os.pipe()
    with own, other:
        variables = {**kept, "PMI_FD": str(writer), "PATH": "/bin", "SLURM_PROCID": "0", "RANK_ID": "1"}
        stand_in.hand_over(own, variables, {"host": "n0"})
        heard = meeting_point.receive(other)
        assert heard is not None
        assert heard.word == "identity"
        fields = {"variables": {**kept, "PMI_FD": str(writer)}, "named": ["PMI_FD"], "origin": {"host": "n0"}}
        assert heard.fields == fields
        (given,) = heard.files
        os.write(given, b"handed over")
        assert os.read(reader, 100) == b"handed over"
        os.write(writer, b"still open")
        assert os.read(reader, 100) == b"still open"
        stand_in.hand_over(own, {"PMI_FD": "none", "PMI_RANK": "2"}, {})
        again = meeting_point.receive(other)
        assert again is not None
        assert (again.fields["named"], again.files) == ([], ())
    for number in (given, reader, writer):
        os.close(number)


def test_a_rank_that_nobody_has_started_is_told_with_the_seconds_it_was_waited_for() -> None:
    words = f"^rank 3 was not started on {os.uname().nodename} within 0 s \\(MPIPARALLEL_GATHER_SECONDS\\)$".replace(
        "MPIPARALLEL_GATHER_SECONDS", SECONDS_VARIABLE
    )
    with pytest.raises(LaunchError, match=words):
        stand_in._reach("0" * 16 + str(os.getpid()), 3, 0.0)


def test_signals_are_passed_on_to_the_process_unless_the_kernel_does_not_tell_its_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passed: list[tuple[int, int]] = []

    def kill(process: int, number: int) -> None:
        passed.append((process, number))
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", kill)
    for process in (0, 1, 77):
        stand_in._passing_to(process)(signal.SIGUSR1, None)
    assert passed == [(1, signal.SIGUSR1), (77, signal.SIGUSR1)]


class Client:
    """Keeps what is said to the launcher, and what is made of it."""

    def __init__(self, where: ControlAddress, about: Mapping[str, Any], lost: Any, unreachable: Any) -> None:
        self.where, self.about, self.ends = where, about, (lost, lambda: unreachable("no route"))
        self.said: list[tuple[str, Any]] = []

    def say(self, word: str, failure: Mapping[str, Any] | None = None) -> None:
        self.said.append((word, failure and (failure["rank"], failure["exception"], failure["exit_code"])))

    def wait_until_all_are_ready(self) -> None:
        self.said.append(("ready", None))


class Left(BaseException):
    """This process has left, with a code."""


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> list[Client]:
    made: list[Client] = []

    def make(*words: Any) -> Client:
        made.append(Client(*words))
        return made[-1]

    monkeypatch.setattr(stand_in, "ControlClient", make)
    monkeypatch.setattr(stand_in, "die_with_parent", lambda: None)
    for name in [name for name in os.environ if name.startswith(("OMPI_", "PMI", "SLURM_", "MPI_LOCAL"))]:
        monkeypatch.delenv(name)
    rank = {"PMI_RANK": "1", "PMI_SIZE": "3", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "3"}
    for name, value in {**rank, "MPIPARALLEL_LINE": "127.0.0.1:4711:t"}.items():
        monkeypatch.setenv(name, value)
    return made


WORDS = ["--digest", "d", "--seconds", "5", "--origin", '{"host": "n0"}']


@pytest.mark.parametrize(
    ("order", "outcome", "code", "rank", "said"),
    [
        ([], None, 0, 1, ("completed", None)),
        (["--rank-order", "1,2,0"], None, 0, 2, ("completed", None)),
        ([], Failure(1, 1.0, "odd", "", 7), 7, 1, ("failed", (1, "odd", 7))),
        (["--rank-order", "1,2,0"], LaunchError("not started"), 1, 2, ("failed", (2, "not started", 1))),
    ],
)
def test_the_launcher_hears_of_the_rank_by_its_number_in_the_job(
    order: list[str],
    outcome: Failure | LaunchError | None,
    code: int,
    rank: int,
    said: tuple[str, Any],
    clients: list[Client],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stood_in(arguments: Any, found: int, client: Client) -> Failure | None:
        assert (arguments.digest, arguments.seconds, arguments.origin, found) == ("d", 5.0, {"host": "n0"}, rank)
        if isinstance(outcome, LaunchError):
            raise outcome
        return outcome

    monkeypatch.setattr(stand_in, "_stand_in", stood_in)
    assert stand_in.main([*WORDS, *order]) == code
    (client,) = clients
    assert client.said == [said]
    assert client.where == ControlAddress(("127.0.0.1",), 4711, "t")
    assert client.about == {"rank": rank, "process": 1, "pid": os.getpid(), "host": os.uname().nodename}
    # The rank that was started by hand must not call the launcher itself.
    assert "MPIPARALLEL_LINE" not in os.environ


def test_without_a_launcher_it_leaves_at_once(clients: list[Client], monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(code: int) -> None:
        raise Left(code)

    monkeypatch.setattr(stand_in, "_stand_in", lambda *words: None)
    stand_in.main(WORDS)
    monkeypatch.setattr(os, "_exit", leave)
    for end in clients[0].ends:
        with pytest.raises(Left, match=r"^1$"):
            end()


@pytest.mark.parametrize("words", [["ended"], ["failed", "ended"], []])
def test_only_the_last_word_before_the_end_counts_and_a_failure_at_once(
    words: list[str], clients: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    former = {number: signal.getsignal(number) for number in preemption_signals()}
    own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    monkeypatch.setattr(meeting_point, "call", lambda digest, rank: own if (digest, rank) == ("d", 1) else None)
    with own, other:
        for word in words:
            content = {"word": word, **(FAILED if word == "failed" else {})}
            other.send(json.dumps(content).encode())
        other.shutdown(socket.SHUT_WR)
        code = stand_in.main(WORDS)
        assert [meeting_point.receive(other).word for _ in range(2)] == ["stand-in", "identity"]  # type: ignore[union-attr]
    told = {
        "ended": (0, ("completed", None)),
        "failed": (3, ("failed", (1, "ValueError: odd", 3))),
        "": (137, ("failed", (1, f"process {os.getpid()} was killed, or left by os._exit", 137))),
    }[words[0] if words else ""]
    assert (code, clients[0].said) == (told[0], [("ready", None), told[1]])
    for number, handler in former.items():
        assert signal.signal(number, handler) is not handler
