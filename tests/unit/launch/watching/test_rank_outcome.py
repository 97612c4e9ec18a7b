"""What became of a rank, and which one is the cause where several end at about one time."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpiparallel.errors import MISMATCH
from mpiparallel.launch.control.rank_registry import RankRegistry
from mpiparallel.launch.job.rank_folder import Failure, RankFolder
from mpiparallel.launch.watching.rank_outcome import RankOutcome, first_cause


@pytest.mark.parametrize(
    ("error", "later", "cause"),
    [
        ("CommunicationError: all_reduce: MPI_ERR_PROC_FAILED", 0.0, 2),
        ("CommunicationError: all_reduce: MPI_ERR_PROC_FAILED", 0.9, 2),
        ("CommunicationError: all_reduce: MPI_ERR_PROC_FAILED", 1.1, 0),
        ("ValueError: of its own", 0.9, 0),
    ],
)
def test_an_error_of_communication_is_the_consequence_of_what_ends_within_a_second(
    error: str, later: float, cause: int, tmp_path: Path
) -> None:
    registry = RankRegistry(4)
    for rank in range(4):
        registry.call(rank, rank, "n0", 100 + rank, 100 + rank)
    registry.entries[0].failure = Failure(0, 1000.0, error, "", 1)
    registry.lose(2)
    registry.entries[2].lost_at = 1000.0 + later
    found = first_cause(
        [RankOutcome.of(RankFolder(tmp_path, one.rank), one) for one in registry], 2000.0, survives_deaths=False
    )
    assert found is not None
    assert found.rank == cause


ODD = Failure(1, 1000.0, "ValueError: odd", "T", 1)


def test_a_rank_is_told_by_what_it_said_before_what_it_left(tmp_path: Path) -> None:
    entry = RankRegistry(2).entries[1]
    folder = RankFolder(tmp_path, 1)
    folder.path.mkdir()
    nothing = RankOutcome.of(folder, entry)
    assert (nothing.ended_well, nothing.is_preempted, nothing.failure, nothing.has_died) == (False, False, None, False)
    assert (nothing.time, nothing.rank, nothing.process, nothing.host) == (float("inf"), 1, 1, "")
    assert not nothing.has_begun
    folder.write_failure(ODD)
    assert (RankOutcome.of(folder, entry).failure, RankOutcome.of(folder, entry).time) == (ODD, 1000.0)
    entry.failing, entry.lost_at = Failure(1, 1.0, "begins", "", 1), 1002.0
    assert (RankOutcome.of(folder, entry).failure, RankOutcome.of(folder, entry).time) == (ODD, 1002.0)
    entry.failure, entry.said_at = Failure(1, 2.0, "says", "", 1), 1001.0
    assert (RankOutcome.of(folder, entry).failure, RankOutcome.of(folder, entry).time) == (entry.failure, 1001.0)
    entry.failing_at = 1000.5
    assert RankOutcome.of(folder, entry).time == 1000.5


@pytest.mark.parametrize(
    ("mark", "word", "is_failing", "ended_well", "is_preempted"),
    [
        ("completed", None, False, True, False),
        ("preempted", None, False, True, True),
        (None, "completed", False, True, False),
        (None, "preempted", False, True, True),
        (None, None, False, False, False),
        ("completed", None, True, False, False),
    ],
)
def test_a_rank_ended_well_by_its_mark_or_its_word_unless_it_began_to_fail(
    mark: str | None, word: str | None, is_failing: bool, ended_well: bool, is_preempted: bool, tmp_path: Path
) -> None:
    entry = RankRegistry(1).entries[0]
    entry.last_word, entry.lost_at = word, 1000.0
    entry.failing = ODD if is_failing else None
    folder = RankFolder(tmp_path, 0)
    folder.path.mkdir()
    if mark:
        (folder.path / mark).touch()
    found = RankOutcome.of(folder, entry)
    assert (found.ended_well, found.is_preempted) == (ended_well, is_preempted)
    assert found.has_died == (not ended_well and not is_failing)
    assert found.has_begun == ended_well


def test_a_host_is_one_line_and_a_process_is_called_as_mpirun_calls_it(tmp_path: Path) -> None:
    registry = RankRegistry(2)
    registry.call(1, 0, " n0\n\x0b of  two ", 100)
    found = RankOutcome.of(RankFolder(tmp_path, 1), registry.entries[1])
    assert (found.rank, found.process, found.host, found.has_begun) == (1, 0, "n0 of two", True)


def test_a_rank_that_has_a_log_has_begun(tmp_path: Path) -> None:
    folder = RankFolder(tmp_path, 0)
    folder.path.mkdir()
    folder.log.touch()
    assert RankOutcome.of(folder, RankRegistry(1).entries[0]).has_begun


@pytest.mark.parametrize(
    ("summary", "origin", "is_consequence"),
    [
        ("CommunicationError: send", None, True),
        ("RankFailureError: rank 2", None, True),
        ("RuntimeError: MPI_ERR_OTHER", None, True),
        ("mpi4py.MPI.Exception: odd", None, True),
        ("CommunicationError: send", 0, False),
        (f"CommunicationError: {MISMATCH}", None, False),
        ("ValueError: odd", None, False),
    ],
)
def test_an_error_is_of_others_where_communication_fails_but_not_where_it_names_a_rank_or_calls_that_differ(
    summary: str, origin: int | None, is_consequence: bool, tmp_path: Path
) -> None:
    entry = RankRegistry(1).entries[0]
    entry.failure = Failure(0, 1.0, summary, "", 1, origin)
    assert RankOutcome.of(RankFolder(tmp_path, 0), entry).is_consequence is is_consequence


def ended(folder: Path, *stories: tuple[float, str]) -> list[RankOutcome]:
    """Ranks that ended at these moments by an error, or died where there is none."""
    registry = RankRegistry(len(stories))
    for entry, (moment, error) in zip(registry, stories, strict=True):
        entry.lost_at = entry.said_at = moment
        if error:
            entry.last_word, entry.failure = "failed", Failure(entry.rank, moment, error, "", 1)
    return [RankOutcome.of(RankFolder(folder, entry.rank), entry) for entry in registry]


OF_OTHERS, OWN = "CommunicationError: send", "ValueError: odd"


@pytest.mark.parametrize(
    ("stories", "survives", "cause"),
    [
        ([(9.0, ""), (8.0, "")], False, 1),
        ([(9.0, OF_OTHERS), (9.5, ""), (9.8, OWN)], False, 2),
        ([(9.0, OF_OTHERS), (9.5, OF_OTHERS)], False, 0),
        ([(9.0, OF_OTHERS), (10.0, "")], False, 1),
        ([(9.0, OF_OTHERS), (10.5, OWN)], False, 0),
        ([(9.0, ""), (9.5, OWN)], False, 0),
        ([(9.0, ""), (30.0, OWN)], True, 1),
        ([(9.0, ""), (30.0, OWN), (40.0, OWN)], True, 1),
        ([(9.0, ""), (30.0, OF_OTHERS)], True, 0),
        ([(50.5, OWN), (51.0, "")], True, None),
        ([(50.0, "")], False, 0),
    ],
)
def test_the_first_end_before_the_launcher_ended_the_job_is_the_cause(
    stories: list[tuple[float, str]], survives: bool, cause: int | None, tmp_path: Path
) -> None:
    found = first_cause(ended(tmp_path, *stories), 50.0, survives)
    assert (found and found.rank) == cause


@pytest.mark.parametrize(
    ("blamed", "exception", "moment"),
    [((9.0, ""), OWN, 8.0), ((9.0, OF_OTHERS), OWN, 8.0), ((9.0, "KeyError: own"), "KeyError: own", 9.0)],
)
def test_a_rank_that_others_blame_is_told_in_its_own_words_where_it_has_any(
    blamed: tuple[float, str], exception: str, moment: float, tmp_path: Path
) -> None:
    teller, other = ended(tmp_path, (8.0, OWN), blamed)
    found = other.blamed(teller)
    assert found.failure is not None
    assert (found.rank, found.failure.exception, found.time) == (1, exception, moment)
