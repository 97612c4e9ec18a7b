"""Ranks that shells have started, as one job: what keeps it from being started comes back in words."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import pytest

from mpiparallel.cluster.rank_table import Device, RankTable, Server
from mpiparallel.launch import gathering
from mpiparallel.launch.gathering import main, run
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
