"""Two saved checkpoints in the current folder, and the command that is run on them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.launch.cli import main
from tests.conformance.trainings.saved_checkpoint import save

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original")
    for step in (76, 77):
        save(folder, step)
    return folder


@pytest.fixture(autouse=True)
def saved(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(original, "saved")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run ``mpiparallel ckpt`` with words; return its exit code, stdout and stderr."""

    def running(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["ckpt", *words])
        told = capsys.readouterr()
        return code, told.out, told.err

    return running


@pytest.fixture
def parsed(run: Run) -> Callable[..., dict[str, Any]]:
    """Run ``mpiparallel ckpt`` with words and ``--json``; return what it tells, once the exit code is ``code``."""

    def running(*words: str, code: int = 0) -> dict[str, Any]:
        found, out, err = run(*words, "--json")
        assert (found, err) == (code, "")
        told: dict[str, Any] = json.loads(out)
        return told

    return running
