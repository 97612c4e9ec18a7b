from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from mpiparallel.cluster.exit_codes import FAILED, HUNG
from mpiparallel.cluster.flight import format as layout
from mpiparallel.cluster.flight import recorder as recording
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


def test_a_call_that_never_ended_is_told_so_however_many_were_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RankFolder(tmp_path, 0)
    folder.path.mkdir()
    recorder = FlightRecorder(folder.flight, 0, 1)
    recorder.change_state(layout.RUNNING)
    world, barrier = recorder.group(range(1)), recorder.text("barrier")
    for _ in range(300):
        recorder.leave(recorder.enter(world, barrier, 0, 0))
    recorder.enter(world, barrier, 0, 0)
    assert main(["postmortem", str(tmp_path)]) == 0
    assert "barrier #301 (all ranks), 0 elements: never ended\n" in capsys.readouterr().out


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
    assert main(["postmortem", str(job), "--json"]) == 0
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


MOMENT = 1_700_000_000.25


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The moment that is written down from now on."""
    told = [MOMENT]
    monkeypatch.setattr(recording, "time", SimpleNamespace(time_ns=lambda: round(told[0] * 1e9)))
    return told


def clocked(moment: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(moment))


def test_each_rank_is_told_with_its_last_calls_and_how_long_they_took(
    tmp_path: Path, clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RankFolder(tmp_path, 0)
    folder.path.mkdir()
    recorder = FlightRecorder(folder.flight, 0, 2)
    world = recorder.group(range(2))
    for seconds in (0.5, 0.9992, 0.0125, 100.0, 1000.0):
        number = recorder.enter(world, recorder.text("barrier"), 0, 1234567)
        clock[0] += seconds
        recorder.leave(number)
    recorder.enter_message(world, recorder.text("start_send"), recorder.text("w"), 4, 1)
    recorder.pause()
    recorder.beat("train.py:88")
    recorder.change_state(layout.RUNNING)
    assert main(["postmortem", str(tmp_path)]) == 0
    summary, lacking, empty, who, *calls = capsys.readouterr().out.splitlines()
    assert (summary, lacking, empty) == (
        "no rank waited for another one",
        "1 of 2 ranks left no recording here: 1",
        "",
    )
    end = MOMENT + 1101.5117
    host = os.uname().nodename
    seen = f"killed or lost; last seen {clocked(end)}.762, at train.py:88"
    assert who == f"rank 0 on {host}, process {os.getpid()}: {seen}"
    assert calls == [
        f"  {clocked(MOMENT + 1.5117)}.762 barrier #4 (all ranks), 1,234,567 elements: took 100.0 s",
        f"  {clocked(MOMENT + 101.5117)}.762 barrier #5 (all ranks), 1,234,567 elements: took 1,000.0 s",
        f"  {clocked(end)}.762 start_send (w, all ranks), 4 elements: was started and not waited for",
    ]
    main(["postmortem", str(tmp_path), "--calls", "9"])
    assert [line.rpartition(": ")[2] for line in capsys.readouterr().out.splitlines()[4:7]] == [
        "took 500 ms",
        "took 999 ms",
        "took 12.5 ms",
    ]


def test_a_moment_just_before_a_second_is_that_second(
    tmp_path: Path, clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    clock[0] = MOMENT + 0.7496
    folder = RankFolder(tmp_path, 0)
    folder.path.mkdir()
    FlightRecorder(folder.flight, 0, 1).beat("a.py:1")
    main(["postmortem", str(tmp_path)])
    assert f"last seen {clocked(MOMENT + 1)}.000, at a.py:1" in capsys.readouterr().out


@pytest.mark.parametrize(("calls", "shown"), [("-1", 0), ("0", 0), ("1", 1), ("2", 2), ("9", 5)])
def test_as_many_calls_are_shown_as_are_asked_for(
    calls: str, shown: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RankFolder(tmp_path, 0)
    folder.path.mkdir()
    recorder = FlightRecorder(folder.flight, 0, 1)
    world = recorder.group([0])
    for _ in range(5):
        recorder.leave(recorder.enter(world, recorder.text("barrier"), 0, 0))
    recorder.change_state(layout.ENDED)
    assert main(["postmortem", str(tmp_path), "--calls", calls]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"rank 0 on .*: ended; last seen \d\d:\d\d:\d\d\.\d{3}", lines[2])
    assert [re.findall(r"#(\d)", line) for line in lines[3:]] == [[str(number)] for number in range(6 - shown, 6)]


def test_of_a_hang_that_was_found_nothing_else_is_said_and_the_first_finder_is_named(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank, moment in ((2, MOMENT), (0, MOMENT + 5)):
        RankFolder(job, rank).write_failure(Failure(rank, moment, f"found by {rank}", "", HUNG))
    main(["postmortem", str(job)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"found by 2 (found by rank 2 at {clocked(MOMENT)}.250)"
    assert lines[1] == ""
    RankFolder(job, 2).write_failure(Failure(2, MOMENT, "ValueError: odd\nmore", "", FAILED))
    main(["postmortem", str(job)])
    assert capsys.readouterr().out.splitlines()[1] == (
        f"rank 2 failed first, at {clocked(MOMENT)}.250: ValueError: odd"
    )
