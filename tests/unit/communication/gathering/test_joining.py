"""What a process takes over from its stand-in: its place in the job, not the settings that it has itself."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mpiparallel.cluster.gathering import meeting_point
from mpiparallel.cluster.gathering.hand_started import HandStarted
from mpiparallel.communication.gathering import joining
from mpiparallel.communication.gathering.joining import join_hand_started, take_identity
from mpiparallel.errors import LaunchError
from mpiparallel.launch.rank.stand_in import hand_over
from tests.conformance.trainings.shell_loop import write_table


def test_a_stand_in_hands_over_who_it_is_for_mpi_and_its_open_files() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reading, writing = os.pipe()
    has = {"PMI_FD": str(writing), "PMI_RANK": "3", "OMPI_MCA_osc": "^ucx", "OMPI_MCA_btl": "tcp", "HOME": "/there"}
    mine = {"OMPI_MCA_btl": "self", "HOME": "/here", "PMI_RANK": "stale", "RANK_ID": "3"}
    with closing(ours), closing(theirs):
        hand_over(theirs, has, {"host": "n0"})
        message = meeting_point.receive(ours)
    assert message is not None
    assert message.fields["origin"] == {"host": "n0"}
    take_identity(mine, message)
    number = int(mine.pop("PMI_FD"))
    assert mine == {"OMPI_MCA_btl": "self", "OMPI_MCA_osc": "^ucx", "HOME": "/here", "PMI_RANK": "3", "RANK_ID": "3"}
    assert number != writing
    os.write(number, b"through")
    assert os.read(reading, 7) == b"through"
    for each in (reading, writing, number):
        os.close(each)


class Job:
    """Stands for the wait, for what starts mpirun and for the tie to it; keeps what is asked of them."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.refusal = ""
        self.environment: dict[str, str] = {}

    def wait(self, started: HandStarted, origin: Any) -> AbstractContextManager[Job]:
        assert origin.process == os.getpid()
        self.asked.append(("wait", started.rank))
        return nullcontext(self)

    def for_all_here(self) -> None:
        self.asked.append("for all here")

    def start(self, started: HandStarted, origin: Any) -> str:
        self.asked.append("start mpirun")
        return "starter"

    def for_identity(self, starter: Any) -> Any:
        self.asked.append(("for identity", starter))
        if self.refusal:
            raise LaunchError(self.refusal)
        variables = {"PMI_RANK": str(self.asked[0][1]), "PMI_SIZE": "2"}
        return "connection", meeting_point.GatheringMessage("identity", {"variables": variables, "named": []})

    def refuse_all(self, reason: str) -> None:
        self.asked.append(("refuse all", reason))

    def variables(self) -> dict[str, str]:
        return {name: value for name, value in self.environment.items() if not name.startswith("PYTEST_")}

    def tie(self, *ends: Any) -> Any:
        return ends


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Job:
    job = Job()
    monkeypatch.setattr(joining, "Waiting", job.wait)
    monkeypatch.setattr(joining, "MpirunStarter", job.start)
    monkeypatch.setattr(joining, "Tie", job.tie)
    monkeypatch.setattr(os, "environ", job.environment)
    return job


@pytest.mark.parametrize(
    ("table", "number", "told"),
    [
        ([], {}, "the 2 processes started one by one are one job"),
        (
            [("10.*.*.*", 2)],
            {"DEVICE_ID": "0"},
            'the 2 processes of table.json are one job; its server_id "10.*.*.*" is taken for this host',
        ),
        ([(os.uname().nodename, 2)], {"DEVICE_ID": "0"}, "the 2 processes of table.json are one job"),
    ],
)
def test_rank_0_starts_mpirun_when_all_are_there_and_says_whose_job_it_is(
    table: list[tuple[str, int]],
    number: dict[str, str],
    told: str,
    job: Job,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    about = {"RANK_TABLE_FILE": str(write_table(tmp_path / "table.json", table))} if table else {"RANK_SIZE": "2"}
    job.environment.update(RANK_ID="0", **about)
    assert join_hand_started() == ("connection", 0, "starter")
    assert job.asked == [("wait", 0), "for all here", "start mpirun", ("for identity", "starter")]
    identity = {"PMI_RANK": "0", "PMI_SIZE": "2"}
    assert job.variables() == {"RANK_ID": "0", "RANK_SIZE": "2", **about, **identity, **number}
    assert capsys.readouterr() == ("", f"mpiparallel: {told}\n")


def test_any_other_rank_waits_for_its_identity_alone(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    job.environment.update(RANK_ID="1", RANK_SIZE="2", DEVICE_ID="7")
    assert join_hand_started() == ("connection", 1, None)
    assert job.asked == [("wait", 1), ("for identity", None)]
    assert job.environment["DEVICE_ID"] == "7"
    assert capsys.readouterr() == ("", "")


def test_a_rank_without_a_job_lets_the_others_know_why(job: Job) -> None:
    job.environment.update(RANK_ID="1", RANK_SIZE="2")
    job.refusal = "init: rank 1 is claimed twice"
    with pytest.raises(LaunchError, match=r"^init: rank 1 is claimed twice$"):
        join_hand_started()
    assert job.asked[2:] == [("refuse all", job.refusal)]
    assert job.variables() == {"RANK_ID": "1", "RANK_SIZE": "2"}


def test_a_process_that_is_alone_waits_for_nobody(job: Job) -> None:
    assert join_hand_started() is None
    assert job.asked == []


def test_other_systems_than_linux_are_told_the_command(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.environment.update(RANK_ID="1", RANK_SIZE="2")
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(LaunchError, match="find each other on Linux only; use mpiparallel run -n 2"):
        join_hand_started()
    assert job.asked == []


def test_a_process_that_has_started_mpi_itself_is_told_the_command(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.environment.update(RANK_ID="1", RANK_SIZE="2")
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", ModuleType("mpi4py.MPI"))
    with pytest.raises(LaunchError, match=r"was imported before.*call init first, or use mpiparallel run -n 2"):
        join_hand_started()
    assert job.asked == []
