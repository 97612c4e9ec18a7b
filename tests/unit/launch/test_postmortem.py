from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mpiparallel.cluster.exit_codes import FAILED, HUNG
from mpiparallel.cluster.flight import format as layout
from mpiparallel.cluster.flight.recorder import FlightRecorder
from mpiparallel.launch.cli import main
from mpiparallel.launch.job.rank_folder import Failure, RankFolder


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The files of three ranks, of which two waited for rank 1."""
    for rank in range(3):
        folder = RankFolder(tmp_path, rank)
        folder.path.mkdir()
        recorder = FlightRecorder(folder.flight, rank, 3)
        recorder.change_state(layout.RUNNING)
        world = recorder.group(range(3))
        recorder.leave(recorder.enter(world, recorder.text("barrier"), 0, 0))
        if rank != 1:
            recorder.enter(world, recorder.text("all_reduce <f4 sum"), recorder.text("layer3.w"), 12)
        recorder.beat(f"train.py:{88 + rank % 2}")
    return tmp_path


def test_it_says_who_waited_for_whom_and_what_each_rank_did_last(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["postmortem", str(job)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "ranks 0,2 wait in all_reduce #2 (layer3.w, all ranks) at train.py:88 for rank 1, which is at train.py:89 "
        "after barrier #1 (all ranks)"
    )
    assert sum(line.endswith("all_reduce #2 (layer3.w, all ranks), 12 elements: never ended") for line in lines) == 2


def test_what_the_watchdog_said_while_all_lived_is_printed_again(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    RankFolder(job, 2).write_failure(Failure(2, 1.0e9, "ranks 0,2 wait for rank 1, which is stopped", "", HUNG))
    main(["postmortem", str(job)])
    assert capsys.readouterr().out.startswith("ranks 0,2 wait for rank 1, which is stopped (found by rank 2 at ")


def test_the_first_failure_and_missing_ranks_are_named(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    RankFolder(job, 2).write_failure(Failure(2, 2.0e9, "ValueError: late", "", FAILED))
    RankFolder(job, 0).write_failure(Failure(0, 1.0e9, "ValueError: early", "", FAILED))
    RankFolder(job, 1).flight.unlink()
    main(["postmortem", str(job)])
    out = capsys.readouterr().out
    assert "rank 0 failed first" in out
    assert "ValueError: early" in out
    assert "1 of 3 ranks left no recording here: 1" in out


def test_json_holds_all_that_is_recorded(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["postmortem", str(job), "--json"])
    ranks = json.loads(capsys.readouterr().out)
    assert [rank["rank"] for rank in ranks] == [0, 1, 2]
    assert ranks[0]["inside"]["label"] == "layer3.w"


def test_how_long_a_call_took_is_told_in_milliseconds(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["postmortem", str(job), "--json"])
    calls = [call for rank in json.loads(capsys.readouterr().out) for call in rank["calls"]]
    main(["postmortem", str(job)])
    told = [float(number) for number in re.findall(r"took (\S+) ms", capsys.readouterr().out)]
    taken = [1000 * (call["left"] - call["entered"]) for call in calls if call["left"] is not None]
    assert told == pytest.approx(taken, rel=0.01)
    assert len(told) == 3


def test_a_folder_without_recordings_is_refused_with_what_to_give(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["postmortem", str(tmp_path)]) == 2
    assert "give the --log-dir of a job" in capsys.readouterr().err


def test_a_folder_of_damaged_recordings_says_what_is_wrong_with_one(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in range(3):
        RankFolder(job, rank).flight.write_bytes(b"torn")
    assert main(["postmortem", str(job)]) == 2
    assert re.search(r"has no recordings .*: .*flight0\.bin.*; give the --log-dir of a job", capsys.readouterr().err)


def test_a_damaged_recording_leaves_those_of_the_others(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    RankFolder(job, 1).flight.write_bytes(b"torn")
    assert main(["postmortem", str(job)]) == 0
    assert "1 of 3 ranks left no recording here: 1" in capsys.readouterr().out
