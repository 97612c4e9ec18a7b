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
    text = f"{tmp_path}/device3/failure.json is there, but cannot be read"
    written = RankFolder(tmp_path, 3).failure.stat().st_mtime
    assert found == Failure(3, written, text, text, 1)


def test_a_failure_that_not_even_the_system_can_name_a_time_of_is_told_all_the_same(tmp_path: Path) -> None:
    folder = RankFolder(tmp_path, 3)
    folder.path.mkdir()
    # A link to itself is no file, but it is there.
    folder.failure.symlink_to(folder.failure.name)
    found = folder.read_failure()
    assert found is not None
    assert (found.rank, found.time, found.exit_code) == (3, 0.0, 1)
    assert f"{folder.failure} is there, but cannot be read" in found.exception


@pytest.mark.parametrize(
    ("exception", "summary", "is_exit"),
    [
        ("ValueError: one\ntwo", "ValueError: one", False),
        ("\n  ValueError: one", "ValueError: one", False),
        ("", "exit code 3", False),
        ("x" * 1001, "x" * 1000, False),
        ("SystemExit", "it left with exit code 3", True),
        ("SystemExit: 3", "it left with exit code 3", True),
        ("SystemExit: no data", "no data", True),
    ],
)
def test_a_failure_is_summed_up_in_its_first_line(exception: str, summary: str, is_exit: bool) -> None:
    failure = Failure(0, 1.0, exception, "", 3)
    assert (failure.summary, failure.is_exit) == (summary, is_exit)


def test_of_long_texts_the_ends_are_kept_and_of_a_long_action_the_beginning(tmp_path: Path) -> None:
    longest = 64 * 1024
    found = left(tmp_path, exception="a" + "b" * longest, traceback="c" + "d" * longest, action="e" * 200 + "f")
    assert found is not None
    assert (found.exception, found.traceback, found.action) == ("b" * longest, "d" * longest, "e" * 200)
    odd = left(tmp_path, origin="two", action=7)
    assert odd is not None
    assert (odd.origin, odd.action) == (None, "")


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("1000.5 9\n", (1000.5, 9)),
        ("0 0", (0.0, 0)),
        ("1000.5 65535", (1000.5, 65535)),
        ("1000.5 65536", None),
        ("1000.5 -1", None),
        ("-1 9", None),
        ("1e11 9", None),
        ("nan 9", None),
        ("1000.5", None),
        ("1000.5 9 1", None),
        ("soon 9", None),
        ("", None),
        (None, None),
    ],
)
def test_how_a_process_ended_is_taken_as_its_parent_wrote_it_or_not_at_all(
    text: str | None, status: tuple[float, int] | None, tmp_path: Path
) -> None:
    folder = RankFolder(tmp_path, 0)
    folder.path.mkdir()
    if text is not None:
        folder.wait_status.write_text(text)
    assert folder.read_wait_status() == status


NAMES = ["completed", "env3.log", "failure.json", "flight3.bin", "preempted", "stack3.log", "train.log3", "wait_status"]


def test_all_that_a_rank_leaves_is_kept_for_a_later_attempt_and_removed_for_a_new_job(tmp_path: Path) -> None:
    folder = RankFolder(tmp_path, 3)
    folder.path.mkdir()
    (folder.path / "weights.attempt0").touch()
    own = (
        *(folder.log, folder.environment, folder.stack, folder.flight),
        *(folder.completed, folder.preempted, folder.failure, folder.wait_status),
    )
    assert sorted(path.name for path in own) == NAMES
    for attempt in (1, 2):
        for path in own:
            path.write_text(str(attempt))
        folder.begin(attempt)
        # The launcher and the rank may both do it.
        folder.begin(attempt)
    kept = [f"{name}.attempt{attempt}" for name in NAMES for attempt in (0, 1)]
    assert sorted(path.name for path in folder.path.iterdir()) == sorted(["weights.attempt0", *kept])
    assert (folder.path / "train.log3.attempt1").read_text() == "2"
    folder.begin(0)
    assert [path.name for path in folder.path.iterdir()] == ["weights.attempt0"]
    RankFolder(tmp_path, 4).begin(0)
    assert not RankFolder(tmp_path, 4).path.exists()


def test_what_somebody_else_clears_at_the_same_time_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RankFolder(tmp_path, 0)
    folder.path.mkdir()
    folder.log.touch()
    # It was there when it was looked for.
    monkeypatch.setattr(Path, "glob", lambda path, pattern: [path / "train.log0.attempt0"])
    folder.clear()
    assert not folder.log.exists()
