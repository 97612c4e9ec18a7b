"""Ranks that shells have started, as one job: what keeps it from being started comes back in words."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import pytest

from mpiparallel.cluster.hostfile import Host
from mpiparallel.cluster.rank_table import Device, RankTable, Server
from mpiparallel.launch import gathering
from mpiparallel.launch.gathering import main, run
from mpiparallel.launch.job.host_selection import HostSelection
from mpiparallel.launch.job.installation import Installation
from mpiparallel.launch.job.mpirun_command import MpirunCommand
from mpiparallel.launch.watching.job_outcome import JobOutcome
from mpiparallel.launch.watching.run_policy import RunPolicy
from tests.conformance.trainings.shell_loop import write_table


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("broken.json", "broken.json"),
        ("two.json", "cannot load MPI (ImportError: no libmpi)"),
        (None, "cannot load MPI (ImportError: no libmpi)"),
    ],
)
def test_what_keeps_a_job_from_being_started_is_told_and_leaves_no_folder(
    table: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.json").write_text("{")
    write_table(tmp_path / "two.json", [("localhost", 2)])
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'ImportError: no libmpi' >&2\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    arguments = argparse.Namespace(
        ranks=2, digest="d", seconds="60", origin="o", rank_table=table and Path(table), words=2
    )
    assert said in run(arguments)
    assert not list(tmp_path.glob("mpiparallel-*"))


def words_of(pipe: tuple[int, int]) -> str:
    os.close(pipe[1])
    with os.fdopen(pipe[0]) as words:
        return words.read()


@pytest.mark.parametrize("problem", [None, ValueError("no such job"), KeyboardInterrupt()])
def test_the_one_who_waits_is_told_of_the_end_in_words_whatever_it_was(
    problem: BaseException | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[argparse.Namespace] = []

    def run_or_fail(arguments: argparse.Namespace) -> str:
        given.append(arguments)
        if problem is not None:
            raise problem
        return "rank 1 has exit code 3"

    monkeypatch.setattr(os, "fork", lambda: 0)
    monkeypatch.setattr(os, "setsid", lambda: None)
    monkeypatch.setattr(gathering, "run", run_or_fail)
    pipe = os.pipe()
    options = ["--ranks", "2", "--digest", "d", "--seconds", "60", "--origin", "o", "--words", str(pipe[1])]
    if problem is None:
        assert main(options) == 0
        assert words_of(pipe) == "rank 1 has exit code 3"
    else:
        with pytest.raises(type(problem)):
            main(options)
        assert words_of(pipe) == f"{type(problem).__name__}: {problem}"
    assert vars(given[0]) == {
        **{"ranks": 2, "digest": "d", "seconds": "60", "origin": "o", "rank_table": None, "words": pipe[1]}
    }


def test_stand_ins_are_told_the_order_of_the_ranks_only_where_it_is_another(tmp_path: Path) -> None:
    def words(*servers: tuple[int, ...]) -> tuple[str, ...]:
        found = [
            Server(f"10.0.0.{place}", tuple(Device(rank, f"192.1.{place}.{rank}", rank) for rank in ranks))
            for place, ranks in enumerate(servers)
        ]
        table = tmp_path / "table.json"
        table.write_text(RankTable(tuple(found)).to_json())
        arguments = argparse.Namespace(ranks=3, digest="d", seconds="60", origin="o", rank_table=table, words=2)
        return gathering._job(arguments, tmp_path).script.arguments

    plain = ("--digest", "d", "--seconds", "60", "--origin", "o")
    assert words((0, 1), (2,)) == words((2,), (0, 1)) == plain
    assert words((0, 2), (1,)) == (*plain, "--rank-order", "0,2,1")


@pytest.mark.parametrize(
    ("outcome", "words"),
    [(JobOutcome(0, "rank 1 died; the others went on"), ""), (JobOutcome(9, "rank 1 died"), "rank 1 died")],
)
def test_only_an_end_that_is_not_well_has_words_and_the_folder_of_the_job_goes(
    outcome: JobOutcome, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[MpirunCommand, int, Path, RunPolicy]] = []

    def supervised(command: MpirunCommand, ranks: int, folder: Path, policy: RunPolicy) -> JobOutcome:
        assert folder.is_dir()
        seen.append((command, ranks, folder, policy))
        return outcome

    monkeypatch.setattr(gathering, "supervise", supervised)
    monkeypatch.setattr(gathering, "check_host", lambda *_: ())
    monkeypatch.setattr(gathering, "find_installation", lambda: Installation("mpich", "MPICH 5", "mpiexec"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("RANK_ID", "DEVICE_ID", "SLURM_JOB_ID", "KEPT"):
        monkeypatch.setenv(name, "1")
    arguments = argparse.Namespace(ranks=2, digest="d", seconds="60", origin="o", rank_table=None, words=2)
    assert run(arguments) == words
    ((command, ranks, folder, policy),) = seen
    assert (ranks, folder.exists(), folder.parent, folder.name[:12]) == (2, False, tmp_path, "mpiparallel-")
    # Each process is told who it is by MPI, and the allocation must not spread what is all on this host.
    given = {"RANK_ID", "DEVICE_ID", "SLURM_JOB_ID", "KEPT"} & set(command.environment)
    assert (given, policy.keeps_logs, policy.spans_hosts) == ({"KEPT"}, False, False)
    stand_in = ("-m", "mpiparallel.launch.rank.stand_in", "--digest", "d", "--seconds", "60", "--origin", "o")
    assert command.argv == ("mpiexec", "-print-all-exitcodes", "-n", "2", sys.executable, *stand_in)


def test_over_hosts_the_variables_of_the_allocation_stay(tmp_path: Path) -> None:
    variables = {"SLURM_JOB_ID": "7", "RANK_ID": "0", "A": "x"}
    spread = HostSelection((Host("n1", 2), Host("n2", 2)), 2, True)
    assert gathering._variables(variables, spread) == {"SLURM_JOB_ID": "7", "A": "x"}
    assert gathering._variables(variables, HostSelection((), 4, False)) == {"A": "x"}
