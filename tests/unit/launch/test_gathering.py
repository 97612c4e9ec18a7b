"""Ranks that shells have started, as one job: what keeps it from being started comes back in words."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import pytest

from mpiparallel.launch.gathering import run
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
