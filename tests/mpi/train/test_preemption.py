"""Preemption as a cluster does it: the signal comes to the launcher, under mpirun alone and under ours."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.conformance import patience
from tests.conformance.mpi_launcher import environment, launcher

pytestmark = pytest.mark.mpi

RANKS = 2
MODULE = "tests.mpi.train.preempted_ranks"
ENDED = re.compile(r"rank \d ends after step (\d+)\.")


def started(words: list[str], root: Path, folder: Path, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*words, "-m", MODULE, *args],
        cwd=folder,
        env=environment(root),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def told_when_it_trains(job: subprocess.Popen[str]) -> tuple[int, str]:
    """Send the launcher the signal after the first step; return its exit status and what was printed."""
    try:
        for line in job.stdout or ():
            if line.strip().endswith("began"):
                break
        job.send_signal(signal.SIGUSR1)
        output = patience.communicated(job)[0]
    finally:
        job.kill()
    return job.returncode, output


def mpirun(mpi_python: Path) -> list[str]:
    return [launcher(mpi_python), "-n", str(RANKS), str(mpi_python)]


def ours(mpi_python: Path) -> list[str]:
    return [str(mpi_python), "-m", "mpiparallel", "run", "-n", str(RANKS)]


@pytest.mark.parametrize("start", [mpirun, ours])
def test_the_launcher_is_told_and_all_ranks_save_one_step_and_leave_in_order(
    start, mpi_python, tmp_path, pytestconfig
) -> None:
    job = started(start(mpi_python), pytestconfig.rootpath, tmp_path, "saved")
    code, output = told_when_it_trains(job)
    assert code == 85, output
    if start is ours:
        output += "".join(path.read_text() for path in tmp_path.glob("device*/train.log*"))
    assert len(ENDED.findall(output)) >= RANKS, output
    steps = set(map(int, ENDED.findall(output)))
    assert len(steps) == 1, output
    assert f"step {steps.pop()} is saved in " in output
    assert "Traceback" not in output


def test_without_a_checkpoint_the_exit_code_is_that_of_the_signal_and_it_is_said_why(
    mpi_python, tmp_path, pytestconfig
) -> None:
    job = started(mpirun(mpi_python), pytestconfig.rootpath, tmp_path)
    code, output = told_when_it_trains(job)
    assert code == 128 + signal.SIGUSR1, output
    assert "preempted by SIGUSR1 after step" in output
    assert "nothing is saved: give Model.train a ModelCheckpoint; exit code 138" in output
