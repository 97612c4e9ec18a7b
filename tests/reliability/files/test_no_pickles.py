"""A checkpoint is saved, verified and loaded without a pickle, in files or in messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.mpi_launcher import library
from tests.reliability.counts import record
from tests.reliability.mpi_job import MpiJob

pytestmark = pytest.mark.mpi


def test_no_pickle_is_made_or_read(interpreter: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    with MpiJob(interpreter, 2, "tests.reliability.ranks.pickle_ranks", notes, tmp_path / "checkpoints") as job:
        status = job.end()
        assert status == 0, job.output()
        assert sorted(job.output().split("\n")) == ["", "rank 0 refuses pickles", "rank 1 refuses pickles"]
    record(f"saves and loads with pickles refused: {library(interpreter)}", saves=2, pickles=0)
