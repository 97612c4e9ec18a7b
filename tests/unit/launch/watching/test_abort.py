"""Who has ended a job by MPI_Abort, and with which code, by the words of either MPI or by its silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpiparallel.launch.control.rank_registry import RankRegistry
from mpiparallel.launch.job.rank_folder import Failure, RankFolder
from mpiparallel.launch.watching.abort import Abort
from mpiparallel.launch.watching.job_outcome import judge
from mpiparallel.launch.watching.mpirun_result import MpirunResult
from mpiparallel.launch.watching.rank_outcome import RankOutcome


def said_by_openmpi(process: int, code: int, first: int) -> str:
    return (
        f"  Proc: [[17003,1],{process}]\n  Errorcode: {code}\n\nprterun has exited due to process rank {first} with PID"
        f' 7357 on node vm calling\n"abort". This may have caused other processes\n'
    )


def said_by_mpich(code: int) -> str:
    return f"Abort({code}) on node 2 (rank 2 in comm 0): application called MPI_Abort(comm, {code})\n"


def outcomes(folder: Path, *completed: int, logs: dict[int, str] | None = None) -> list[RankOutcome]:
    """Four ranks, the processes of MPI in opposite order, of which the last to be missed at second 14 is rank 0."""
    registry = RankRegistry(4)
    for rank in range(4):
        registry.call(rank, 3 - rank, "n0", 100 + rank)
        if rank in completed:
            registry.hear(rank, "completed", None)
        registry.lose(rank)
        registry.entries[rank].lost_at = registry.entries[rank].said_at = 14.0 - rank
        own = RankFolder(folder, rank)
        own.path.mkdir()
        own.log.write_text((logs or {}).get(rank, ""))
    return [RankOutcome.of(RankFolder(folder, entry.rank), entry) for entry in registry]


@pytest.mark.parametrize(
    ("output", "logs", "rank", "given", "code"),
    [
        (said_by_openmpi(3, 9, 3), {}, 0, 9, 9),
        (said_by_openmpi(3, -1, 3), {}, 0, -1, 255),
        (said_by_openmpi(3, 256, 3), {}, 0, 256, 1),
        (said_by_openmpi(3, 0, 3), {}, 0, 0, 1),
        # Open MPI names two: the first is the one that it has ended the job for.
        (said_by_openmpi(3, 9, 3) + said_by_openmpi(1, 7, 3), {}, 0, 9, 9),
        ("", {2: said_by_mpich(9)}, 2, 9, 9),
        ("", {2: f"words\n{said_by_mpich(-3)}more\n"}, 2, -3, 253),
        ("", {1: said_by_mpich(5), 2: said_by_mpich(9)}, 2, 9, 9),
    ],
)
def test_the_first_rank_of_which_mpi_says_that_it_aborts_is_named_with_its_code(
    output: str, logs: dict[int, str], rank: int, given: int, code: int, tmp_path: Path
) -> None:
    found = Abort.of(outcomes(tmp_path, logs=logs), MpirunResult(1, output))
    assert found is not None
    assert found.outcome is not None
    assert (found.outcome.rank, found.given, found.code) == (rank, given, code)
    assert found.headline(4) == f"rank {rank} of 4 ended the job: it called MPI_Abort with code {given}"


@pytest.mark.parametrize(
    ("output", "logs"),
    [
        (said_by_openmpi(3, 9, 2), {}),
        ("words", {2: f"it said {said_by_mpich(9)}"}),
        ("words", {2: said_by_mpich(9).replace("application called MPI_Abort", "internal error")}),
    ],
)
def test_words_of_which_nobody_is_the_first_or_that_are_of_the_library_name_none(
    output: str, logs: dict[int, str], tmp_path: Path
) -> None:
    assert Abort.of(outcomes(tmp_path, logs=logs), MpirunResult(1, output)) is None


@pytest.mark.parametrize(("ended_at", "is_cause"), [(13.5, False), (14.0, True), (14.5, True)])
def test_an_abort_after_the_launcher_began_to_end_the_job_is_no_cause(
    ended_at: float, is_cause: bool, tmp_path: Path
) -> None:
    found = Abort.of(outcomes(tmp_path), MpirunResult(1, said_by_openmpi(3, 9, 3), ended_at=ended_at))
    assert (found is not None) == is_cause


@pytest.mark.parametrize(
    ("result", "is_abort"),
    [
        (MpirunResult(9), True),
        (MpirunResult(1, " \n"), True),
        (MpirunResult(127), True),
        (MpirunResult(128), False),
        (MpirunResult(137), False),
        (MpirunResult(0), False),
        (MpirunResult(-9), False),
        (MpirunResult(9, "words"), False),
        (MpirunResult(9, ended_at=20.0), False),
    ],
)
def test_a_mpiexec_that_says_nothing_was_ended_by_an_abort_of_which_nobody_knows_whose(
    result: MpirunResult, is_abort: bool, tmp_path: Path
) -> None:
    found = Abort.of(outcomes(tmp_path, 1), result)
    assert (found is not None) == is_abort
    if found:
        assert (found.outcome, found.code) == (None, result.code)
        assert found.headline(4) == (
            f"one of 4 ranks ended the job: it called MPI_Abort with code {result.code}; no log has the words of MPI "
            "that say which one"
        )


def test_a_silent_mpiexec_whose_rank_failed_or_still_runs_was_ended_by_no_abort(tmp_path: Path) -> None:
    ranks = outcomes(tmp_path, 1)
    running, failed = RankRegistry(4).entries[3], RankRegistry(4).entries[3]
    failed.last_word, failed.failure = "failed", Failure(3, 11.0, "ValueError", "", 1)
    for entry in (running, failed):
        ranks[3] = RankOutcome.of(ranks[3].folder, entry)
        assert Abort.of(ranks, MpirunResult(9)) is None


@pytest.mark.parametrize(
    ("failed", "headline", "code"),
    [
        (None, "rank 2 of 4 ended the job: it called MPI_Abort with code 9", 9),
        (2, "rank 2 of 4 ended the job: it called MPI_Abort with code 9", 9),
        (1, "rank 1 of 4 failed first: ValueError: odd", 3),
        (3, "rank 3 of 4 failed first: ValueError: odd", 3),
    ],
)
def test_a_rank_that_failed_before_another_aborted_is_the_cause(
    failed: int | None, headline: str, code: int, tmp_path: Path
) -> None:
    registry = RankRegistry(4)
    for rank in range(4):
        registry.call(rank, rank, "n0", 100 + rank)
        registry.lose(rank)
        registry.entries[rank].lost_at = 14.0
    if failed is not None:
        entry = registry.entries[failed]
        entry.last_word, entry.said_at = "failed", 11.0
        entry.failure = Failure(failed, 11.0, "ValueError: odd", "T", 3)
    folders = [RankFolder(tmp_path, rank) for rank in range(4)]
    outcome = judge(folders, MpirunResult(1, said_by_openmpi(2, 9, 2)), registry)
    assert (outcome.message.splitlines()[0], outcome.code) == (headline, code)


@pytest.mark.parametrize(("code", "told"), [(0, ""), (1, "rank 2 of 4 ended the job: it called MPI_Abort with code 9")])
def test_words_of_an_abort_in_a_log_are_believed_only_where_mpirun_has_failed(
    code: int, told: str, tmp_path: Path
) -> None:
    ranks = outcomes(tmp_path, 0, 1, 2, 3, logs={2: said_by_mpich(9)})
    registry = RankRegistry(4)
    for one in ranks:
        registry.hear(one.rank, "completed", None)
    outcome = judge([one.folder for one in ranks], MpirunResult(code), registry)
    assert outcome.message.partition("\n")[0] == told
