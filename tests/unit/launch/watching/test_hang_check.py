"""What the launcher finds out of the recordings of ranks that cannot look themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpiparallel.cluster.flight import format as flight_format
from mpiparallel.cluster.flight.recorder import FlightRecorder
from mpiparallel.launch.job.rank_folder import RankFolder
from mpiparallel.launch.watching.hang_check import HangCheck

SIZE = 3
SECONDS = 20.0


def recorded(folder: RankFolder) -> FlightRecorder:
    folder.path.mkdir()
    recorder = FlightRecorder(folder.flight, folder.rank, SIZE)
    recorder.change_state(flight_format.RUNNING)
    return recorder


def enter(recorder: FlightRecorder) -> int:
    return recorder.enter(recorder.group(range(SIZE)), recorder.text("MPI_Init"), 0, 0)


@pytest.fixture
def folders(tmp_path: Path) -> list[RankFolder]:
    return [RankFolder(tmp_path, rank) for rank in range(SIZE)]


def test_rank_that_is_in_one_call_for_longer_than_its_watchdog_lets_it_be_is_told_of(folders: list[RankFolder]) -> None:
    check = HangCheck(folders, SECONDS)
    for folder in folders:
        recorder = recorded(folder)
        if folder.rank:
            enter(recorder)
    # Its own watchdog comes first.
    assert [check.look_for_overdue(now) for now in (100.0, 110.0, 124.0)] == [None] * 3
    told = check.look_for_overdue(126.0)
    assert told is not None
    assert told.startswith("ranks 1-2 wait in MPI_Init #1 (all ranks) for rank 0")


def test_ranks_that_come_and_go_or_have_no_watchdog_are_never_overdue(folders: list[RankFolder]) -> None:
    check, unbounded = HangCheck(folders, SECONDS), HangCheck(folders, None)
    recorders = [recorded(folder) for folder in folders]
    for now in range(0, 200, 10):
        calls = [enter(recorder) for recorder in recorders[1:]]
        assert check.look_for_overdue(float(now)) is None
        assert unbounded.look_for_overdue(float(now)) is None
        for recorder, number in zip(recorders[1:], calls, strict=True):
            recorder.leave(number)


def waiting_for_rank_0(folders: list[RankFolder]) -> list[FlightRecorder]:
    recorders = [recorded(folder) for folder in folders]
    for recorder in recorders[1:]:
        enter(recorder)
    return recorders


def test_a_wait_for_a_rank_that_has_ended_is_told_once_four_looks_have_found_it(folders: list[RankFolder]) -> None:
    check, patient = HangCheck(folders), HangCheck(folders, survives_deaths=True)
    waiting_for_rank_0(folders)[0].change_state(flight_format.ENDED)
    *early, told = [check.look() for _ in range(4)]
    assert early == [None] * 3
    assert told is not None
    assert told.startswith("ranks 1-2 wait in MPI_Init #1 (all ranks) for rank 0")
    assert check.look() == told
    # Where a training survives deaths, the MPI library is given longer to see one.
    assert [patient.look() for _ in range(11)] == [None] * 11
    assert patient.look() == told


def test_a_wait_that_changes_is_looked_at_anew(folders: list[RankFolder]) -> None:
    check = HangCheck(folders)
    recorders = [recorded(folder) for folder in folders]
    recorders[0].change_state(flight_format.ENDED)
    enter(recorders[2])
    assert [check.look() for _ in range(3)] == [None] * 3
    enter(recorders[1])
    assert [check.look() for _ in range(3)] == [None] * 3
    told = check.look()
    assert told is not None
    assert told.startswith("ranks 1-2 wait in MPI_Init")


def test_a_wait_for_a_rank_that_may_still_come_is_never_told(folders: list[RankFolder]) -> None:
    check = HangCheck(folders)
    waiting_for_rank_0(folders)
    assert [check.look() for _ in range(20)] == [None] * 20
