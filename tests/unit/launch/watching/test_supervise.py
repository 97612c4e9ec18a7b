from __future__ import annotations

import fcntl
import os
import re
import sys
from pathlib import Path

import pytest

from mpiparallel.errors import LaunchError
from mpiparallel.launch.control.rank_registry import RankRegistry
from mpiparallel.launch.job.lost_output import LostOutput
from mpiparallel.launch.job.mpirun_command import MpirunCommand
from mpiparallel.launch.watching import watch as module
from mpiparallel.launch.watching.mpirun_output import MpirunOutput
from mpiparallel.launch.watching.run_policy import RunPolicy
from mpiparallel.launch.watching.supervise import supervise

# An mpirun that goes on for an hour after one of its ranks has failed.
STUBBORN = """
import json, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1], "device1")
folder.mkdir(parents=True)
error = "ValueError: odd"
failure = {"rank": 1, "time": time.time(), "exception": error, "traceback": error, "exit_code": 7}
folder.joinpath("failure.json").write_text(json.dumps(failure))
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(3600)
"""

# An mpirun that is told to end, as by Ctrl-C, and hears some signals of those that follow.
INTERRUPTED = """
import os, pathlib, signal, sys, time
heard = pathlib.Path(sys.argv[1], "heard").open("w", buffering=1)
def hear(number, frame):
    print(signal.Signals(number).name, file=heard)
    if number != signal.SIGINT:
        sys.exit(1)
for name in sys.argv[2:]:
    signal.signal(getattr(signal, name), hear)
for name in {"SIGINT", "SIGTERM"}.difference(sys.argv):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
# Not before the launcher listens: it has its own handler of SIGTERM then.
status = pathlib.Path(f"/proc/{os.getppid()}/status")
while not int(status.read_text().partition("SigCgt:")[2].split()[0], 16) >> signal.SIGTERM - 1 & 1:
    time.sleep(0.001)
os.kill(os.getppid(), signal.SIGINT)
time.sleep(3600)
"""


@pytest.mark.usefixtures("heeded_interrupts")
@pytest.mark.parametrize("hears", [["SIGINT", "SIGTERM"], ["SIGTERM"], []])
def test_an_interrupt_that_does_not_end_mpirun_is_followed_by_sigterm_and_that_by_sigkill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hears: list[str]
) -> None:
    monkeypatch.setattr(module, "_SIGNAL_GRACE_SECONDS", 0.2)
    command = MpirunCommand((sys.executable, "-c", INTERRUPTED, str(tmp_path), *hears), dict(os.environ), {})
    outcome = supervise(command, 2, tmp_path, RunPolicy(timeout=3600.0))
    assert (outcome.code, outcome.message) == (130, "ended by SIGINT")
    assert (tmp_path / "heard").read_text().split() == hears


@pytest.mark.parametrize("words", [[], ["deaf"]])
def test_a_failed_job_ends_also_where_mpirun_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setattr(module, "_FAILURE_GRACE_SECONDS", 0.2)
    monkeypatch.setattr(module, "_KILL_GRACE_SECONDS", 0.2)
    command = MpirunCommand((sys.executable, "-c", STUBBORN, str(tmp_path), *words), dict(os.environ), {})
    outcome = supervise(command, 2, tmp_path, RunPolicy(timeout=3600.0))
    assert outcome.code == 7
    assert "rank 1 of 2 failed first: ValueError: odd" in outcome.message


def test_hostfile_of_a_job_never_follows_a_link(tmp_path: Path) -> None:
    path, other = tmp_path / "hostfile", tmp_path / "of somebody"
    other.write_text("theirs")
    path.symlink_to(other)
    command = MpirunCommand((sys.executable, "-c", ""), dict(os.environ), {}, hostfile=(path, "n0 slots=2\n"))
    with pytest.raises(LaunchError, match=f"^{re.escape(str(path))}: it is a link; .*; give a --log-dir that can"):
        supervise(command, 2, tmp_path)
    assert other.read_text() == "theirs"


ENDING = MpirunCommand((sys.executable, "-I", "-S", "-c", ""), dict(os.environ), {})


def test_a_folder_for_logs_that_cannot_be_is_refused_with_the_mend(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "logs"
    with pytest.raises(LaunchError, match=f"^--log-dir {folder}: Not a directory; give a folder that can be written$"):
        supervise(ENDING, 2, folder)


def test_a_folder_for_logs_is_of_one_job_at_a_time_and_free_after_it(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    words = f"^--log-dir {tmp_path}: another job is writing there; give each job its own$"
    with pytest.raises(LaunchError, match=words):
        supervise(ENDING, 2, tmp_path)
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    assert supervise(ENDING, 2, tmp_path).has_begun is False
    supervise(ENDING, 2, tmp_path / "made" / "for it")
    assert (tmp_path / "made" / "for it" / "launcher.log").read_text() == ""
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)


@pytest.mark.parametrize(
    ("losses", "told"),
    [
        ({}, []),
        ({1: 1500}, ["rank 1: 1,500 bytes (full)"]),
        ({0: 1, 1: 1000, 2: 9}, ["ranks 0-2: 1,010 bytes (full)"]),
        ({0: 1, 2: 9, "mpirun": 7}, ["ranks 0,2: 10 bytes (full)", "mpirun: 7 bytes (full)"]),
    ],
)
def test_what_ranks_and_mpirun_could_not_write_is_told_once_for_all(
    losses: dict[object, int],
    told: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def registered(size: int) -> RankRegistry:
        registry = RankRegistry(size)
        for entry in registry:
            # The first that has lost something says why.
            reason = "full" if entry.rank == min((one for one in losses if one != "mpirun"), default=0) else "slow"
            entry.lost = LostOutput(losses.get(entry.rank, 0), reason)
        return registry

    monkeypatch.setattr("mpiparallel.launch.watching.supervise.RankRegistry", registered)
    monkeypatch.setattr(MpirunOutput, "lost", LostOutput(losses.get("mpirun", 0), "full"))
    supervise(ENDING, 3, tmp_path)
    more = f" of output are lost, as {tmp_path} took no more; make room there, or give another --log-dir"
    said = capsys.readouterr().err.splitlines()
    assert said == [f"mpiparallel: warning: {words}{more}" for words in told]


@pytest.mark.parametrize(("attempt", "kept"), [(0, []), (1, ["completed.attempt0"])])
def test_what_an_earlier_start_has_left_says_nothing_of_this_one(attempt: int, kept: list[str], tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"device{rank}").mkdir()
        (tmp_path / f"device{rank}" / "completed").touch()
    outcome = supervise(ENDING, 2, tmp_path, RunPolicy(attempt=attempt))
    assert (outcome.code, outcome.has_begun) == (1, False)
    for rank in range(2):
        assert [path.name for path in (tmp_path / f"device{rank}").iterdir()] == kept
