"""``mpiparallel run`` without its mpirun: what reaches the supervision of a job, and what is said before and after."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpiparallel.launch import run
from mpiparallel.launch.cli import main
from mpiparallel.launch.job.console import Console
from mpiparallel.launch.job.installation import Installation
from mpiparallel.launch.job.mpirun_command import MpirunCommand
from mpiparallel.launch.watching.job_outcome import JobOutcome
from mpiparallel.launch.watching.run_policy import RunPolicy


class Supervised:
    """Takes the place of the supervision of jobs, and keeps the policy of each."""

    def __init__(self) -> None:
        self.policies: list[RunPolicy] = []
        self.outcome = JobOutcome(0)

    def __call__(
        self, command: MpirunCommand, ranks: int, log_dir: Path, policy: RunPolicy, console: Console
    ) -> JobOutcome:
        assert ranks == 4
        self.policies.append(policy)
        return self.outcome


@pytest.fixture
def supervised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Supervised:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("")
    for name in ("RANK_TABLE_FILE", "MPIPARALLEL_ON_FAILURE", "MPIPARALLEL_WATCHDOG", "MPIPARALLEL_CHAOS"):
        monkeypatch.delenv(name, raising=False)
    made = Supervised()
    monkeypatch.setattr(run, "supervise", made)
    monkeypatch.setattr(run, "find_installation", lambda vendor: Installation("openmpi", "Open MPI 5", "mpirun"))
    monkeypatch.setattr(run, "check_host", lambda *_: [])
    return made


@pytest.mark.parametrize(
    ("words", "ranks", "is_prefixed"),
    [
        ([], (0,), False),
        (["--tee"], (0, 1, 2, 3), True),
        (["--tee-ranks", "1"], (1,), True),
        (["--tee-ranks", "3,0-1"], (0, 1, 3), True),
        (["--tee", "--tee-ranks", "2"], (2,), True),
    ],
)
def test_the_ranks_that_are_asked_for_are_shown(
    words: list[str], ranks: tuple[int, ...], is_prefixed: bool, supervised: Supervised
) -> None:
    assert main(["run", "-n", "4", *words, "train.py"]) == 0
    (policy,) = supervised.policies
    assert (policy.shown.ranks, policy.shown.is_prefixed) == (ranks, is_prefixed)


def test_what_the_host_lacks_is_told_before_the_job_and_how_it_ended_after_it(
    supervised: Supervised, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "check_host", lambda *_: ["/dev/shm is small", "few files"])
    supervised.outcome = JobOutcome(7, "rank 1 died")
    assert main(["run", "-n", "4", "train.py"]) == 7
    first, second, summary, last = capsys.readouterr().err.splitlines()
    assert [first, second] == ["mpiparallel: warning: /dev/shm is small", "mpiparallel: warning: few files"]
    assert summary.startswith("mpiparallel: 4 ranks, Open MPI 5, ")
    assert summary.endswith(f", logs in {Path.cwd()}/device<rank>/")
    assert last == "mpiparallel: error: rank 1 died"


@pytest.mark.parametrize(("code", "gravity"), [(0, ""), (85, ""), (1, "error: ")])
def test_only_an_end_that_is_none_of_those_wanted_is_an_error(
    code: int, gravity: str, supervised: Supervised, capsys: pytest.CaptureFixture[str]
) -> None:
    supervised.outcome = JobOutcome(code, "so it ended")
    assert main(["run", "-n", "4", "train.py"]) == code
    assert capsys.readouterr().err.splitlines()[-1] == f"mpiparallel: {gravity}so it ended"
