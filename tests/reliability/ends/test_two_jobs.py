"""Two jobs that save into one folder: the first keeps it while it lives, and no longer."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from mpiparallel.checkpoint.catalogue import catalogue
from mpiparallel.checkpoint.files.folder_claim import MARK
from tests.reliability.launched_job import LaunchedJob
from tests.reliability.ranks.waiting_ranks import LAST_STEP

pytestmark = pytest.mark.mpi

MODULE = "tests.reliability.ranks.waiting_ranks"
SIZE = 2


def job(interpreter: Path, notes: Path, folder: Path, goes_on: bool) -> LaunchedJob:
    notes.mkdir()
    if goes_on:
        (notes / "go").touch()
    return LaunchedJob(interpreter, SIZE, MODULE, notes, folder)


def files(folder: Path) -> dict[Path, int]:
    """Return all files below a folder with the times when they were written, but for marks."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != MARK)
    return {path: path.stat().st_mtime_ns for path in found}


@pytest.mark.parametrize("below", ["", "ckpt_{rank}"], ids=["one folder", "a folder for each rank"])
def test_the_second_job_is_refused_until_the_first_is_killed(interpreter: Path, below: str, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    with job(interpreter, tmp_path / "first", saved / below, goes_on=False) as first:
        first.wait_for((tmp_path / "first" / "saved").exists)
        before = files(saved)
        assert len(before) == SIZE + 1
        with job(interpreter, tmp_path / "second", saved / below, goes_on=True) as second:
            refused = second.end()
        assert refused.code == 1, refused.said
        words = (
            rf"{re.escape(str(saved))}(/ckpt_\d)?: another job saves here \(process \d+ of host '.*', since .* UTC\)"
        )
        assert re.search(words, refused.first_words), refused.said
        assert files(saved) == before
        first.strike(signal.SIGKILL)
        assert not first.end().remain
    with job(interpreter, tmp_path / "third", saved / below, goes_on=True) as third:
        ended = third.end()
    assert ended.code == 0, ended.said
    assert len(catalogue(saved)) == 1 + LAST_STEP // 2
    assert not list(saved.rglob(f"{MARK}*"))
