"""``mpiparallel run`` without its mpirun: what reaches the supervision of a job, and what is said before and after."""

from __future__ import annotations

import json
import os
import signal
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
        self.commands: list[MpirunCommand] = []
        self.folders: list[Path] = []
        self.outcome = JobOutcome(0)

    def __call__(
        self, command: MpirunCommand, ranks: int, log_dir: Path, policy: RunPolicy, console: Console
    ) -> JobOutcome:
        assert ranks == 4
        self.policies.append(policy)
        self.commands.append(command)
        self.folders.append(log_dir)
        return self.outcome


@pytest.fixture
def supervised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Supervised:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("")
    for name in [name for name in os.environ if name.startswith(("MPIPARALLEL_", "RANK_", "SLURM_", "OPENBLAS_"))]:
        monkeypatch.delenv(name)
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


def test_what_is_not_asked_for_is_the_policy_that_the_help_tells(supervised: Supervised) -> None:
    assert main(["run", "-n", "4", "train.py"]) == 0
    (policy,) = supervised.policies
    usual = (None, 120.0, (signal.SIGUSR1,), 600.0, False, False, 0)
    assert (
        policy.timeout,
        policy.start_timeout,
        policy.preemption,
        policy.watchdog,
        policy.survives_deaths,
        policy.spans_hosts,
        policy.attempt,
    ) == usual
    assert 0.0 <= policy.spent < 60.0
    assert supervised.folders == [Path.cwd()]


def test_what_is_asked_for_is_the_policy(supervised: Supervised) -> None:
    Path("hosts").write_text("elsewhere slots=4\n")
    words = ["--timeout", "9", "--start-timeout", "7.5", "--watchdog", "off", "--preemption-signal", "USR2,TERM"]
    words += ["--on-failure", "shrink", "--hostfile", "hosts", "--log-dir", "logs", "--keep-children"]
    assert main(["run", "-n", "4", *words, "train.py"]) == 0
    (policy,), (command,) = supervised.policies, supervised.commands
    assert (policy.timeout, policy.start_timeout, policy.watchdog) == (9.0, 7.5, None)
    assert (policy.preemption, policy.survives_deaths, policy.spans_hosts) == (
        (signal.SIGUSR2, signal.SIGTERM),
        True,
        True,
    )
    assert supervised.folders == [Path.cwd() / "logs"]
    assert command.argv[-2:] == ("--keep-children", "train.py")
    assert command.environment["MPIPARALLEL_ON_FAILURE"] == "shrink"


@pytest.mark.parametrize(
    ("vendor", "words", "variable", "starts", "kind"),
    [
        ("openmpi", [], None, 1, "abort"),
        ("openmpi", [], "restart:1", 2, "restart"),
        ("openmpi", ["--on-failure", "abort"], "restart:1", 1, "abort"),
        ("openmpi", ["--on-failure", "shrink:1"], None, 2, "shrink"),
        ("mpich", ["--on-failure", "shrink:1"], None, 2, "restart"),
        ("mpich", [], "", 1, "abort"),
    ],
)
def test_a_job_that_failed_is_started_again_as_option_or_variable_says_by_its_own_name(
    vendor: str,
    words: list[str],
    variable: str | None,
    starts: int,
    kind: str,
    supervised: Supervised,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("mpiparallel.launch.watching.attempts._FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(run, "find_installation", lambda _: Installation(vendor, "MPI 5", "mpirun"))
    if variable is not None:
        monkeypatch.setenv("MPIPARALLEL_ON_FAILURE", variable)
    supervised.outcome = JobOutcome(9, "rank 1 died")
    assert main(["run", "-n", "4", *words, "train.py"]) == 9
    assert [policy.attempt for policy in supervised.policies] == list(range(starts))
    assert {policy.survives_deaths for policy in supervised.policies} == {kind == "shrink"}
    assert {command.environment["MPIPARALLEL_ON_FAILURE"] for command in supervised.commands} == {kind}
    (job,) = {command.environment["MPIPARALLEL_JOB"] for command in supervised.commands}
    assert len(bytes.fromhex(job)) == 8
    warning = "mpiparallel: warning: MPI 5 ends the job with its first rank; a failure restarts the job instead"
    assert (warning in capsys.readouterr().err.splitlines()) == (vendor == "mpich" and "--on-failure" in words)


def test_two_jobs_have_two_names(supervised: Supervised) -> None:
    for _ in range(2):
        main(["run", "-n", "4", "train.py"])
    first, second = (command.environment["MPIPARALLEL_JOB"] for command in supervised.commands)
    assert first != second


@pytest.mark.parametrize("by_option", [True, False])
def test_what_will_strike_a_job_is_said_before_it(
    by_option: bool, supervised: Supervised, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not by_option:
        monkeypatch.setenv("MPIPARALLEL_CHAOS", "kill@3:418")
    main(["run", "-n", "4", *(["--chaos", "kill@3:418"] if by_option else []), "train.py"])
    assert "mpiparallel: chaos: kill rank 3 at collective 418" in capsys.readouterr().err.splitlines()
    assert supervised.commands[0].environment["MPIPARALLEL_CHAOS"] == "kill@3:418"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-n", "4", "--json", "train.py"], "--json: goes with --dry-run; what a job prints is its script's"),
        (["-n", "4", "--tee-ranks", "4", "train.py"], '--tee-ranks 4: "4" names no ranks of 0 to 3; give 0,3-5'),
        (["train.py"], "how many ranks? give -n N, or a --rank-table"),
        (["-n", "4", "--chaos", "kill@4:1", "train.py"], "there is no rank 4 among 4"),
        (["-n", "4", "--watchdog", "soon", "train.py"], "MPIPARALLEL_WATCHDOG='soon' is not a time"),
    ],
)
def test_what_no_job_can_do_is_refused_before_any_is_started(
    words: list[str], told: str, supervised: Supervised, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *words]) == 2
    assert told in capsys.readouterr().err
    assert supervised.policies == []


def test_the_start_on_another_node_than_the_first_starts_nothing(
    supervised: Supervised, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "-n", "4", "--node_rank", "1", "train.py"]) == 0
    assert "nothing is started here" in capsys.readouterr().err
    assert supervised.policies == []


def test_an_allocation_says_how_many_ranks_there_are(supervised: Supervised, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_NTASKS", "4")
    monkeypatch.setenv("RANK_TABLE_FILE", "")
    assert main(["run", "train.py"]) == 0
    assert len(supervised.policies) == 1


def test_what_blas_is_told_is_said_with_the_job(
    supervised: Supervised, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Zen")
    main(["run", "-n", "4", "--log-dir", "logs", "train.py"])
    said = (
        f"4 ranks, Open MPI 5, OPENBLAS_NUM_THREADS=7, OPENBLAS_CORETYPE=Zen, logs in {Path.cwd()}/logs/device<rank>/"
    )
    assert capsys.readouterr().err.splitlines() == [f"mpiparallel: {said}"]


@pytest.mark.parametrize(("mpi", "launcher"), [("openmpi", "mpirun"), ("mpich", "mpiexec.hydra")])
def test_a_dry_run_for_an_mpi_that_is_named_needs_none(
    mpi: str, launcher: str, supervised: Supervised, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("hosts").write_text("n0 slots=3\nn1 slots=1\n")
    words = ["run", "--dry-run", "--mpi", mpi, "-n", "4", "--hostfile", "hosts", "--json", "train.py"]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["mpi"], told["command"][0]) == (mpi, launcher)
    assert told["hosts"] == [{"name": "n0", "slots": 3}, {"name": "n1", "slots": 1}]
    assert told["hostfile"] == str(Path.cwd() / "hostfile")
    assert [place["host"] for place in told["ranks"]] == ["n0", "n0", "n0", "n1"]
    words.remove("--json")
    assert main(words) == 0
    table, _, command = capsys.readouterr().out.partition("\n\n")
    assert table.splitlines()[0] == "rank  host  device"
    assert command.startswith(f"cat > {Path.cwd()}/hostfile <<END\n")
    assert supervised.policies == []
