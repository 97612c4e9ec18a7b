"""What a rank has left about its failure is taken from any file, or said to be unreadable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mpiparallel.launch.job.rank_folder import Failure, RankFolder

FAILURE = Failure(3, 1.5e9, "ValueError: no", "a traceback", 1)
FIELDS = {"time": 1.5e9, "exception": "ValueError: no", "traceback": "a traceback", "exit_code": 1}


def left(folder: Path, **fields: object) -> Failure | None:
    found = RankFolder(folder, 3)
    found.path.mkdir(exist_ok=True)
    found.failure.write_text(json.dumps({**FIELDS, **fields}))
    return found.read_failure()


def test_a_failure_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert RankFolder(tmp_path, 3).read_failure() is None
    assert left(tmp_path) == FAILURE
    assert left(tmp_path, time=0, exit_code=255) == Failure(3, 0.0, "ValueError: no", "a traceback", 255)
    assert left(tmp_path, origin=2, action="F1") == Failure(3, 1.5e9, "ValueError: no", "a traceback", 1, 2, "F1")


@pytest.mark.parametrize(
    "fields",
    [
        *({"time": value} for value in (-0.5, -1, float("nan"), 1e30, "soon", None)),
        *({"exit_code": value} for value in (0, 256, 300, -9, True, 1.0, None)),
        {"exception": None},
        {"traceback": 7},
    ],
    ids=str,
)
def test_what_no_rank_writes_is_told_to_be_unreadable(fields: dict[str, object], tmp_path: Path) -> None:
    found = left(tmp_path, **fields)
    assert found is not None
    assert "cannot be read" in found.exception + found.traceback


def test_a_failure_that_not_even_the_system_can_name_a_time_of_is_told_all_the_same(tmp_path: Path) -> None:
    folder = RankFolder(tmp_path, 3)
    folder.path.mkdir()
    # A link to itself is no file, but it is there.
    folder.failure.symlink_to(folder.failure.name)
    found = folder.read_failure()
    assert found is not None
    assert (found.rank, found.time) == (3, 0.0)
    assert f"{folder.failure} is there, but cannot be read" in found.exception
