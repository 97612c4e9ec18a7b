"""Who a process is that a shell has started: one rank of a job, a rank alone, or refused with what mends it."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from mpiparallel.cluster.gathering.hand_started import HandStarted, host_problem
from mpiparallel.errors import ConfigurationError, MpiParallelError, RankTableError
from tests.conformance.trainings.shell_loop import write_table

RANK = {"RANK_ID": "1", "RANK_SIZE": "2"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_table(tmp_path / "two.json", [("10.*.*.*", 2)])
    write_table(tmp_path / "one.json", [("10.*.*.*", 1)])
    write_table(tmp_path / "hosts.json", [("localhost", 2), ("elsewhere.invalid", 2)])
    write_table(tmp_path / "swapped.json", [("192.0.2.7", 2), ("localhost", 2)])
    (tmp_path / "broken.json").write_text("{")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train.py", "--epochs", "3"])
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    return tmp_path


@pytest.mark.parametrize(
    "variables",
    [
        {"PATH": "/bin"},
        {"RANK_SIZE": "8"},
        {"RANK_ID": "0", "RANK_SIZE": "1"},
        {"RANK_ID": "0", "RANK_TABLE_FILE": "one.json"},
        {"RANK_TABLE_FILE": "one.json"},
        {**RANK, "OMPI_COMM_WORLD_RANK": "1"},
        {**RANK, "PMI_RANK": "1"},
        {**RANK, "PMI_SIZE": "2"},
        {**RANK, "PMIX_RANK": "1"},
        {"RANK_TABLE_FILE": "broken.json", "PMI_RANK": "1"},
        {"MS_WORKER_NUM": "1"},
        {"MS_WORKER_NUM": "many"},
    ],
    ids=str,
)
@pytest.mark.usefixtures("folder")
def test_a_rank_of_a_launcher_and_a_rank_alone_are_not_of_a_shell(variables: dict[str, str]) -> None:
    assert HandStarted.of(variables) is None


@pytest.mark.parametrize(
    ("variables", "kind", "message"),
    [
        ({"RANK_ID": "2", "RANK_SIZE": "2"}, ConfigurationError, "rank 2 of 2"),
        ({"RANK_ID": "-1", "RANK_SIZE": "2"}, ConfigurationError, 'RANK_ID="-1" is not a whole number'),
        ({"RANK_ID": "0", "RANK_SIZE": "two"}, ConfigurationError, 'RANK_SIZE="two" is not a whole number'),
        ({"RANK_ID": "0"}, ConfigurationError, "RANK_SIZE is not set"),
        (
            {"RANK_ID": "0", "RANK_SIZE": "8", "RANK_TABLE_FILE": "two.json"},
            RankTableError,
            "RANK_SIZE is 8, but the rank table two.json has 2 ranks; set RANK_SIZE=2",
        ),
        ({**RANK, "RANK_TABLE_FILE": "none.json"}, RankTableError, "none.json: cannot be read"),
        ({**RANK, "RANK_TABLE_FILE": "broken.json"}, RankTableError, "broken.json"),
        ({"RANK_TABLE_FILE": "two.json"}, ConfigurationError, "no RANK_ID says which one"),
        ({"RANK_TABLE_FILE": "two.json"}, ConfigurationError, "two.json train.py --epochs 3"),
        (
            {"RANK_ID": "2", "RANK_TABLE_FILE": "hosts.json"},
            RankTableError,
            "puts rank 2 on elsewhere.invalid, which cannot be resolved",
        ),
        (
            {"RANK_ID": "0", "RANK_TABLE_FILE": "swapped.json"},
            RankTableError,
            "puts rank 0 on 192.0.2.7, which is not this host",
        ),
        (
            {"MS_ROLE": "MS_WORKER", "MS_WORKER_NUM": "4"},
            ConfigurationError,
            "mpiparallel run -n 4 train.py --epochs 3",
        ),
        ({"MS_ROLE": "MS_SCHED"}, ConfigurationError, "mpiparallel run -n 8 train.py"),
        ({"MS_WORKER_NUM": "2"}, ConfigurationError, "mpiparallel run -n 2 train.py"),
        ({**RANK, "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}, ConfigurationError, "srun --mpi=pmix"),
        *(
            ({**RANK, "HCCL_CONNECT_TIMEOUT": time}, ConfigurationError, f"HCCL_CONNECT_TIMEOUT='{time}' is not a time")
            for time in ("soon", "0", "-0.5", "inf", "nan")
        ),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_names_no_rank_of_a_job_is_refused_at_once(
    variables: dict[str, str], kind: type[MpiParallelError], message: str
) -> None:
    with pytest.raises(kind, match=message.replace(".", r"\.").replace("(", r"\(")):
        HandStarted.of(variables)


def started(**variables: str) -> HandStarted:
    found = HandStarted.of(variables)
    assert found is not None
    return found


@pytest.mark.usefixtures("folder")
def test_the_table_says_how_many_ranks_there_are_and_which_are_here() -> None:
    found = started(RANK_ID="1", RANK_TABLE_FILE="hosts.json")
    assert (found.rank, found.size, found.here, found.is_local) == (1, 4, (0, 1), False)
    assert started(RANK_ID="1", RANK_TABLE_FILE="two.json").here == (0, 1)
    for words, seconds in (("7", 7), ("0.5", 0.5), ("", 120)):
        assert started(RANK_ID="1", RANK_TABLE_FILE="two.json", HCCL_CONNECT_TIMEOUT=words).seconds == seconds


def test_a_step_of_srun_with_one_process_and_an_allocation_alone_are_left_to_the_shell() -> None:
    assert started(**RANK, SLURM_STEP_ID="0", SLURM_STEP_NUM_TASKS="1").size == 2
    assert started(**RANK, SLURM_STEP_NUM_TASKS="2").size == 2


def test_a_job_has_one_digest_and_another_job_another(folder: Path) -> None:
    ranks = [started(RANK_ID=str(rank), RANK_TABLE_FILE="two.json").digest for rank in range(2)]
    assert ranks[0] == ranks[1]
    (folder / "link").symlink_to(folder)
    assert started(RANK_ID="0", RANK_TABLE_FILE=str(folder / "link" / "two.json")).digest == ranks[0]
    (folder / "b").mkdir()
    copy = write_table(folder / "b" / "two.json", [("10.*.*.*", 2)])
    others = [
        started(RANK_ID="0", RANK_TABLE_FILE=str(copy)).digest,
        started(RANK_ID="0", RANK_TABLE_FILE="hosts.json").digest,
        started(RANK_ID="0", RANK_SIZE="2").digest,
        started(RANK_ID="0", RANK_SIZE="3").digest,
    ]
    assert len({ranks[0], *others}) == 5


def test_over_hosts_the_table_may_lie_elsewhere(folder: Path) -> None:
    (folder / "b").mkdir()
    (folder / "b" / "hosts.json").write_text((folder / "hosts.json").read_text())
    here = started(RANK_ID="0", RANK_TABLE_FILE="hosts.json")
    assert started(RANK_ID="1", RANK_TABLE_FILE="b/hosts.json").digest == here.digest


def test_the_command_is_that_of_the_program(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = started(RANK_ID="0", RANK_TABLE_FILE="two.json")
    assert found.command == f"mpiparallel run --rank-table {folder / 'two.json'} train.py --epochs 3"
    monkeypatch.setattr(sys, "argv", ["/usr/bin/pytest", "-s", "my test.py"])
    assert found.command.endswith("two.json -m pytest -s 'my test.py'")
    assert started(RANK_ID="0", RANK_SIZE="2").command.startswith("mpiparallel run -n 2 ")


def test_the_command_of_a_module_names_the_module(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("project.train", "project.train.__main__"):
        monkeypatch.setattr(sys.modules["__main__"], "__spec__", SimpleNamespace(name=name))
        started = HandStarted.of(RANK)
        assert started is not None
        assert started.command == "mpiparallel run -n 2 -m project.train --epochs 3"


def test_the_own_name_of_a_host_need_not_be_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "n7.cluster.invalid")
    assert [host_problem(name) for name in ("n7.cluster.invalid", "n7")] == [None, None]
    assert str(host_problem("n8.cluster.invalid")).startswith("which cannot be resolved on n7.cluster.invalid (")


def test_a_single_rank_has_no_plural() -> None:
    assert [started(**RANK).words(ranks) for ranks in ([3], [3, 4])] == ["rank 3", "ranks 3, 4"]


def test_a_table_of_many_ranks_is_of_as_many_as_the_variables_say(folder: Path) -> None:
    write_table(folder / "many.json", [("10.*.*.*", 150)] * 2)
    found = started(RANK_ID="299", RANK_SIZE="300", RANK_TABLE_FILE="many.json")
    assert (found.rank, found.size, len(found.here), found.is_local) == (299, 300, 300, True)
