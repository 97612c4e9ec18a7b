"""What a rank that srun or mpirun has started makes of its options, and what it refuses word for word."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from mpiparallel.cluster.environment import Environment
from mpiparallel.cluster.rank_order import RankOrder
from mpiparallel.cluster.rank_table import Device, RankTable, Server
from mpiparallel.errors import LaunchError
from mpiparallel.launch.cli import command_line
from mpiparallel.launch.rank import under_launcher
from mpiparallel.launch.rank.starter import Starter
from mpiparallel.launch.rank.worker import WorkerSettings

TEXTS = {"openmpi": "Open MPI v5.0.11, package: Open MPI", "mpich": "MPICH Version:      5.0.2"}
MPIRUN, PMIX = Starter("openmpi"), Starter(pmi="pmix")
OUTER = ("OMPI_", "PMIX_", "SLURM_", "RANK_", "OPENBLAS_", "OMP_NUM", "MKL_", "MPIPARALLEL_")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OUTER)}
    monkeypatch.setattr(os, "environ", kept)
    monkeypatch.setattr(under_launcher, "library_text", lambda: TEXTS["openmpi"])
    Path("train.py").write_text("")


def table(path: str, **ranks: tuple[int, ...]) -> Path:
    """Write a table whose servers have these ranks; return its path."""
    servers = [
        Server(name, tuple(Device(number, f"10.0.0.{rank}", rank) for number, rank in enumerate(owned)))
        for name, owned in ranks.items()
    ]
    Path(path).write_text(RankTable(tuple(servers)).to_json())
    return Path(path)


def parsed(*words: str) -> argparse.Namespace:
    return command_line().parse_args(["run", *words])


def settings(*words: str, rank: int = 0, starter: Starter = MPIRUN) -> WorkerSettings:
    return under_launcher._worker_settings(
        parsed(*(words or ("train.py",))), starter, Environment(rank, 4, rank % 2, 2, rank // 2)
    )


def test_what_is_not_asked_for_is_what_the_launcher_would_do() -> None:
    made = settings("train.py", "--lr", "1", rank=1)
    assert (made.ranks, made.log_dir, made.script.argv) == (4, Path.cwd(), ("train.py", "--lr", "1"))
    assert (made.rank_table, made.order, made.debug, made.keeps_children) == (None, None, False, False)


def test_what_is_asked_for_reaches_the_rank() -> None:
    arguments = command_line().parse_args(["--debug", "run", "--log-dir", "logs", "--keep-children", "-m", "package"])
    made = under_launcher._worker_settings(arguments, MPIRUN, Environment(0, 4, 0, 2, 0))
    assert (made.log_dir, made.debug, made.keeps_children) == (Path.cwd() / "logs", True, True)
    assert made.script.argv == ("-m", "package")


@pytest.mark.parametrize(
    ("starter", "rank", "lines"),
    [
        (MPIRUN, 0, ["mpiparallel: 4 ranks by mpirun of Open MPI, Open MPI v5.0.11, logs in LOGS/device<rank>/"]),
        (PMIX, 0, ["mpiparallel: 4 ranks by srun --mpi=pmix, Open MPI v5.0.11, logs in LOGS/device<rank>/"]),
        (MPIRUN, 1, []),
        (MPIRUN, 2, []),
    ],
)
def test_the_first_rank_alone_says_what_runs_and_where_its_logs_are(
    starter: Starter, rank: int, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    settings("--log-dir", "logs", "train.py", rank=rank, starter=starter)
    assert capsys.readouterr().err.replace(f"{Path.cwd()}/logs/", "LOGS/").splitlines() == lines


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ((), {0: "a\n"}),
        (("--tee",), {0: "[0] a\n", 1: "[1] a\n", 3: "[3] a\n"}),
        (("--tee-ranks", "1,3"), {1: "[1] a\n", 3: "[3] a\n"}),
        (("--tee", "--tee-ranks", "0"), {0: "[0] a\n"}),
    ],
)
def test_each_rank_shows_its_output_where_it_is_asked_to_and_several_behind_their_numbers(
    words: tuple[str, ...], shown: dict[int, str], capfd: pytest.CaptureFixture[str]
) -> None:
    for rank in (0, 1, 3):
        alone = settings(*words, "train.py", rank=rank).standalone
        assert alone is not None
        log = Path(f"log{rank}")
        log.write_text("a\n")
        alone.begin(log)
        alone._end()
        assert capfd.readouterr().out == shown.get(rank, "")


@pytest.mark.parametrize(
    ("by_option", "by_variable", "used"),
    [(True, False, "given.json"), (False, True, "named.json"), (True, True, "given.json")],
)
def test_the_rank_table_is_that_of_the_option_or_of_the_variable(by_option: bool, by_variable: bool, used: str) -> None:
    for name in ("given.json", "named.json"):
        table(name, localhost=(0, 1, 2, 3))
    if by_variable:
        os.environ["RANK_TABLE_FILE"] = "named.json"
    made = settings(*(["--rank-table", "given.json"] if by_option else []), "-n", "4", "train.py")
    assert made.rank_table == Path.cwd() / used


@pytest.mark.parametrize(
    ("starter", "servers", "order"),
    [
        (PMIX, {"n1": (0, 1), "n2": (2, 3)}, None),
        (PMIX, {"n1": (2, 3), "n2": (0, 1)}, RankOrder((2, 3, 0, 1))),
        (PMIX, {"localhost": (0, 3, 1, 2)}, None),
        # Where mpirun has placed the ranks, their numbers are those of the table.
        (MPIRUN, {"n1": (2, 3), "n2": (0, 1)}, None),
    ],
)
def test_tasks_of_srun_are_the_ranks_of_their_nodes_servers(
    starter: Starter, servers: dict[str, tuple[int, ...]], order: RankOrder | None
) -> None:
    os.environ |= {"SLURM_STEP_NODELIST": "n[1-2]", "SLURM_STEP_TASKS_PER_NODE": "2(x2)", "SLURM_NODEID": "0"}
    path = table("table.json", **servers)
    assert settings("--rank-table", str(path), "train.py", starter=starter).order == order


def test_the_script_finds_its_threads_and_what_options_set_in_its_environment() -> None:
    os.environ["OMP_NUM_THREADS"] = "9"
    settings("--watchdog", "30", "--preemption-signal", "USR2", "train.py")
    assert os.environ["OMP_NUM_THREADS"] == "9"
    assert os.environ["OPENBLAS_NUM_THREADS"] == str(max(1, len(os.sched_getaffinity(0)) // 2))
    assert (os.environ["MPIPARALLEL_WATCHDOG"], os.environ["MPIPARALLEL_PREEMPTION_SIGNAL"]) == ("30", "USR2")
    assert {"OMPI_MCA_osc": "^ucx"}.items() <= os.environ.items()


ENDS = "mpirun of Open MPI has started this rank, and ends the job with its first failure"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("--hostfile", "hosts"),
            "--hostfile: mpirun of Open MPI has started this rank; srun or mpirun has placed the ranks already; leave "
            "--hostfile out",
        ),
        (
            ("--timeout", "9"),
            "--timeout: mpirun of Open MPI has started this rank; give srun --time, or mpirun --timeout, instead of "
            "--timeout",
        ),
        (
            ("--on-failure", "shrink"),
            f"--on-failure shrink: {ENDS}; leave it out, or use mpiparallel run -n instead",
        ),
        (
            ("--mpi", "mpich"),
            f"--mpi mpich: mpi4py of {sys.executable} loads Open MPI v5.0.11; leave it out",
        ),
        (
            ("-n", "3"),
            "-n 3: mpirun of Open MPI has started 4 ranks; leave -n out, or give it the same",
        ),
        (
            ("--rank-table", "table.json"),
            "the rank table has 2 ranks, mpirun of Open MPI has started 4; start as many",
        ),
        (("--tee-ranks", "4"), '--tee-ranks 4: "4" names no ranks of 0 to 3; give 0,3-5'),
    ],
)
def test_what_a_started_rank_cannot_follow_is_refused(words: tuple[str, ...], told: str) -> None:
    table("table.json", localhost=(0, 1))
    with pytest.raises(LaunchError) as caught:
        settings(*words, "train.py")
    assert str(caught.value) == told


@pytest.mark.parametrize("words", [("--on-failure", "abort"), ("--mpi", "openmpi"), ("-n", "4")])
def test_what_is_so_anyway_may_be_asked_for(words: tuple[str, ...]) -> None:
    assert settings(*words, "train.py").ranks == 4


def test_a_script_that_is_not_there_is_refused_before_the_rank_begins() -> None:
    with pytest.raises(LaunchError, match=r'^script "absent.py" is not a file in '):
        settings("absent.py")


@pytest.fixture
def run_ranks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[WorkerSettings]]:
    """The ranks that were to be run, as rank 1 of 2 on its host; what becomes of SIGTERM is put back."""
    made: list[WorkerSettings] = []
    monkeypatch.setattr(under_launcher, "run_rank", made.append)
    monkeypatch.setattr(under_launcher, "time", SimpleNamespace(sleep=lambda seconds: None))
    os.environ.update(PMI_RANK="1", PMI_SIZE="2", MPI_LOCALRANKID="1", MPI_LOCALNRANKS="2")
    former = signal.getsignal(signal.SIGTERM)
    yield made
    signal.signal(signal.SIGTERM, former)


def test_a_rank_that_is_run_heeds_sigterm_as_before(
    run_ranks: list[WorkerSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    former = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []
    monkeypatch.setattr(under_launcher, "run_rank", lambda made: seen.append(signal.getsignal(signal.SIGTERM)))
    assert under_launcher.execute(parsed("train.py"), MPIRUN) == 0
    assert seen == [former]


def test_a_dry_run_runs_no_rank(run_ranks: list[WorkerSettings]) -> None:
    assert under_launcher.execute(parsed("--dry-run", "train.py"), MPIRUN) == 0
    assert run_ranks == []
    assert under_launcher.execute(parsed("train.py"), MPIRUN) == 0
    assert [made.ranks for made in run_ranks] == [2]


def test_of_the_ranks_of_a_host_the_first_alone_says_why_it_is_refused(run_ranks: list[WorkerSettings]) -> None:
    assert under_launcher.execute(parsed("-n", "3", "train.py"), MPIRUN) == 2
    os.environ["MPI_LOCALRANKID"] = "0"
    with pytest.raises(LaunchError, match=r"^-n 3: mpirun of Open MPI has started 2 ranks;"):
        under_launcher.execute(parsed("-n", "3", "train.py"), MPIRUN)
    assert run_ranks == []


@pytest.mark.parametrize(("code", "is_ignored"), [(85, True), (3, False)])
def test_only_a_rank_that_is_to_come_again_is_deaf_to_sigterm_at_its_end(
    code: int, is_ignored: bool, run_ranks: list[WorkerSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave(made: WorkerSettings) -> None:
        sys.exit(code)

    monkeypatch.setattr(under_launcher, "run_rank", leave)
    with pytest.raises(SystemExit, match=f"^{code}$"):
        under_launcher.execute(parsed("train.py"), MPIRUN)
    assert (signal.getsignal(signal.SIGTERM) is signal.SIG_IGN) == is_ignored
