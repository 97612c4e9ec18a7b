"""Who failed first on several hosts, by the order on the control channel and the recorded words of mpirun."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpiparallel.launch.control.rank_registry import RankRegistry
from mpiparallel.launch.job.rank_folder import Failure, RankFolder
from mpiparallel.launch.watching.first_failure import FirstFailure
from mpiparallel.launch.watching.job_outcome import judge
from mpiparallel.launch.watching.mpirun_result import MpirunResult
from mpiparallel.launch.watching.rank_outcome import RankOutcome

OPENMPI_LOST = """\
--------------------------------------------------------------------------
PRTE has lost communication with a remote daemon.

  HNP daemon   : [prterun-n0-157@0,0] on node n0
  Remote daemon: [prterun-n0-157@0,3] on node n3
"""
OPENMPI_SSH_ENDED = """\
back to prterun:

  Local host:    n0
  Remote host:   n3
  Daemon exit status: 255
"""
OPENMPI_ABORTED = """\
prterun has exited due to process rank 1 with PID 96 on node n0 calling
"abort". This may have caused other processes in the application to be
"""
OPENMPI_KILLED = "prterun noticed that process rank 7 with PID 96 on node n3 exited on\nsignal 9 (Killed).\n"
MPICH_KILLED = """\
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 107 RUNNING AT n3
=   EXIT CODE: 9
=   CLEANING UP REMAINING PROCESSES
"""
MPICH_LOST = "[mpiexec@n0] control_cb (/mpich-5.0.2/src/pm/hydra/mpiexec/pmiserv_cb.c:280): assert (!closed) failed\n"
SSH_LOST = f"Connection to n3 closed by remote host.\n{MPICH_LOST}"
N3 = "host n3 was lost first, with ranks 6, 7 of 8"


def outcomes(lost: str, folder: Path, unreachable: str = "", guarded: bool = False) -> list[RankOutcome]:
    """Eight ranks, two on each host, that were missed in the order of the digits ``lost``, at one moment."""
    registry = RankRegistry(8)
    for rank in range(8):
        registry.call(rank, rank, f"n{rank // 2}", 200 + rank if guarded else 100 + rank, 100 + rank)
    for moment, rank in enumerate(map(int, lost)):
        registry.lose(rank, str(rank) in unreachable)
        registry.entries[rank].lost_at = 1000.0 + moment / 1000
    return [RankOutcome.of(RankFolder(folder, entry.rank), entry) for entry in registry]


@pytest.mark.parametrize(
    ("lost", "output", "headline", "code"),
    [
        ("67012345", OPENMPI_LOST, N3, 1),
        ("01672345", OPENMPI_LOST, N3, 1),
        ("01", OPENMPI_SSH_ENDED, N3, 1),
        ("6701", SSH_LOST, N3, 1),
        ("01672345", SSH_LOST, N3, 1),
        ("76", MPICH_LOST, N3, 1),
        ("76", MPICH_KILLED, "rank 7 of 8 died first: killed by SIGKILL", 137),
        ("67", MPICH_KILLED, "rank 7 of 8 died first: killed by SIGKILL", 137),
        ("76", OPENMPI_KILLED, "rank 7 of 8 died first: killed by SIGKILL", 137),
        ("76", OPENMPI_ABORTED, "rank 7 of 8 died first: it was killed, or left by os._exit", 1),
    ],
)
def test_first_death_is_of_a_host_only_where_mpirun_says_so(
    lost: str, output: str, headline: str, code: int, tmp_path: Path
) -> None:
    ranks = outcomes(lost, tmp_path)
    first_failure = FirstFailure.of(ranks[int(lost[0])], ranks, output)
    assert first_failure.headline(8).startswith(headline)
    assert first_failure.code == code
    assert first_failure.is_explained == ("it was killed, or" not in headline)


def test_how_a_rank_ended_is_taken_from_its_parent_where_mpirun_tells_of_others(tmp_path: Path) -> None:
    ranks = outcomes("6701", tmp_path, guarded=True)
    for rank, told in ((6, "1000.02 9"), (7, "1000.01 11"), (0, "999.9 9")):
        ranks[rank].folder.path.mkdir()
        ranks[rank].folder.wait_status.write_text(f"{told}\n")
    assert FirstFailure.of(ranks[6], ranks, MPICH_KILLED).headline(8) == "rank 7 of 8 died first: killed by SIGSEGV"


def test_the_first_lost_connection_is_the_first_death_where_guards_outlive_ranks(tmp_path: Path) -> None:
    ranks = outcomes("67", tmp_path, guarded=True)
    assert (
        FirstFailure.of(ranks[6], ranks, MPICH_KILLED)
        .headline(8)
        .startswith("rank 6 of 8 died first: it was killed, or")
    )


def test_a_host_that_the_network_no_longer_reaches_is_lost(tmp_path: Path) -> None:
    ranks = outcomes("670", tmp_path, unreachable="67")
    assert FirstFailure.of(ranks[6], ranks, "").headline(8) == N3
    ranks[7].entry.lost_at = 1001.7
    ranks[7] = RankOutcome.of(ranks[7].folder, ranks[7].entry)
    assert FirstFailure.of(ranks[6], ranks, "").headline(8) == N3


def test_a_host_of_which_a_rank_has_failed_by_itself_is_not_lost(tmp_path: Path) -> None:
    ranks = outcomes("6", tmp_path)
    (tmp_path / "device7").mkdir()
    (tmp_path / "device7" / "completed").touch()
    ranks[7] = RankOutcome.of(ranks[7].folder, ranks[7].entry)
    assert FirstFailure.of(ranks[6], ranks, OPENMPI_LOST).headline(8).startswith("rank 6 of 8 died first")


@pytest.mark.parametrize("told_by_the_guard", [None, 9, 15])
def test_ranks_that_mpirun_could_not_start_are_named_not_those_that_it_ended(
    told_by_the_guard: int | None, tmp_path: Path
) -> None:
    registry = RankRegistry(8)
    folders = [RankFolder(tmp_path, rank) for rank in range(8)]
    for rank in range(6):
        registry.call(rank, rank, f"n{rank // 2}", 200 + rank, 100 + rank)
        registry.lose(rank)
        if told_by_the_guard:
            folders[rank].path.mkdir()
            folders[rank].wait_status.write_text(f"1000.0 {told_by_the_guard}\n")
    outcome = judge(folders, MpirunResult(255, "hydra_pmi_proxy: No such file or directory\n"), registry)
    assert outcome.code == 255
    assert outcome.message.startswith("ranks 6, 7 of 8 had not begun\n")
    assert "hydra_pmi_proxy: No such file or directory" in outcome.message


def test_a_rank_that_ended_before_it_began_is_the_first(tmp_path: Path) -> None:
    ranks = outcomes("01", tmp_path)
    ranks[7] = RankOutcome.of(ranks[7].folder, RankRegistry(8).entries[7])
    said = "   Process name: [prterun-n0-316@1,7]\n   Exit code:    1\n"
    assert (
        FirstFailure.of(ranks[0], ranks, said).headline(8) == "rank 7 of 8 ended with exit code 1 before it had begun"
    )


@pytest.mark.parametrize(
    ("lost", "ended", "headline", "code"),
    [
        ("01", "9,0", "rank 0 of 2 died first: killed by SIGKILL", 137),
        ("01", "11,9", "rank 0 of 2 died first: killed by SIGSEGV", 139),
        # Rank 1 has left by itself, in an exit handler, before mpiexec ended the other in MPI_Finalize.
        ("10", "9,0", "rank 1 of 2 died first: it left with exit code 0 in the middle of the job", 1),
        ("10", "9,11", "rank 1 of 2 died first: killed by SIGSEGV", 139),
    ],
)
def test_rank_that_died_after_its_last_word_is_named_if_it_was_gone_before_the_others(
    lost: str, ended: str, headline: str, code: int, tmp_path: Path
) -> None:
    registry = RankRegistry(2)
    for rank in range(2):
        registry.call(rank, rank, "n0", 100 + rank)
    registry.hear(0, "completed", None)
    for rank in map(int, lost):
        registry.lose(rank)
    result = MpirunResult(137, f"[mpiexec@n0] Exit codes: {ended}")
    outcome = judge([RankFolder(tmp_path, rank) for rank in range(2)], result, registry)
    assert outcome.code == code
    assert headline in outcome.message


@pytest.mark.parametrize(
    ("status", "how", "code"),
    [
        (None, "it was killed, or left by os._exit", 1),
        (9, "killed by SIGKILL (where nobody did: the kernel, for want of memory; see dmesg)", 137),
        (8, "killed by SIGFPE", 136),
        (15, "killed by SIGTERM", 143),
        (1, "killed by SIGHUP", 129),
        (63, "killed by signal 63", 191),
        (3 << 8, "it left with exit code 3 in the middle of the job, without an exception", 3),
        (128 << 8, "it left with exit code 128 in the middle of the job, without an exception", 128),
        (0, "it left with exit code 0 in the middle of the job, without an exception", 1),
    ],
)
def test_how_a_rank_died_is_told_as_its_parent_saw_it(status: int | None, how: str, code: int, tmp_path: Path) -> None:
    ranks = outcomes("67", tmp_path, guarded=True)
    if status is not None:
        ranks[6].folder.path.mkdir()
        ranks[6].folder.wait_status.write_text(f"1000.0 {status}\n")
    found = FirstFailure.of(ranks[6], ranks, "")
    assert (found.headline(8), found.code) == (f"rank 6 of 8 died first: {how}", code)
    # A signal by which mpirun ends ranks itself tells nothing, where nobody has said that it was another's.
    assert found.is_explained == (status not in (None, 9, 15))


@pytest.mark.parametrize(
    ("told", "first"),
    [
        ({7: "999.0 9"}, 6),
        ({6: "1000.0 9"}, 6),
        ({6: "1000.0 9", 7: "999.0 11"}, 7),
        ({6: "1000.0 9", 7: "1001.0 11"}, 6),
        ({6: "1000.0 9", 5: "999.0 11"}, 6),
    ],
)
def test_parents_of_one_host_tell_who_of_those_missed_together_was_first(
    told: dict[int, str], first: int, tmp_path: Path
) -> None:
    ranks = outcomes("675", tmp_path, guarded=True)
    for rank, words in told.items():
        ranks[rank].folder.path.mkdir()
        ranks[rank].folder.wait_status.write_text(words)
    assert FirstFailure.of(ranks[6], ranks, "").outcome.rank == first


def test_a_rank_that_was_missed_half_a_second_later_is_not_of_the_same_moment(tmp_path: Path) -> None:
    for later, first in ((0.5, 7), (0.6, 6)):
        ranks = outcomes("67", tmp_path / str(later), guarded=True)
        ranks[7].entry.lost_at = 1000.0 + later
        ranks[7] = RankOutcome.of(ranks[7].folder, ranks[7].entry)
        for rank, words in ((6, "1000.0 9"), (7, "999.0 11")):
            ranks[rank].folder.path.mkdir(parents=True)
            ranks[rank].folder.wait_status.write_text(words)
        assert FirstFailure.of(ranks[6], ranks, "").outcome.rank == first


def test_a_host_whose_loss_only_the_network_tells_is_explained_where_all_its_ranks_are_silent(tmp_path: Path) -> None:
    for said in (MPICH_LOST, OPENMPI_LOST):
        lost = FirstFailure.of(outcomes("76", tmp_path)[7], outcomes("76", tmp_path), said)
        assert (lost.status, [one.rank for one in lost.of_host], lost.is_explained) == (None, [6, 7], True)
    # Of the lost ones the first by its number, whoever was missed first.
    assert lost.outcome.rank == 6
    ranks = outcomes("67", tmp_path)
    ranks[7].entry.last_word = "completed"
    ranks[7] = RankOutcome.of(ranks[7].folder, ranks[7].entry)
    alone = FirstFailure.of(ranks[6], ranks, MPICH_LOST)
    assert (alone.status, alone.of_host, alone.is_explained) == (None, (), False)


def test_a_single_rank_of_a_lost_host_has_no_plural(tmp_path: Path) -> None:
    ranks = outcomes("6", tmp_path)
    ranks[7].entry.host = "n4"
    ranks = [RankOutcome.of(one.folder, one.entry) for one in ranks]
    assert FirstFailure.of(ranks[6], ranks, OPENMPI_LOST).headline(8) == "host n3 was lost first, with rank 6 of 8"


def test_where_all_ranks_are_on_the_lost_host_a_rank_is_named(tmp_path: Path) -> None:
    ranks = outcomes("67", tmp_path)
    for one in ranks:
        one.entry.host = "n3"
    assert FirstFailure.of(ranks[6], ranks, OPENMPI_LOST).of_host == ()


def test_where_the_launcher_ended_the_job_ranks_that_had_not_begun_are_no_cause(tmp_path: Path) -> None:
    registry = RankRegistry(3)
    for rank in range(2):
        registry.call(rank, rank, "n0", 100 + rank)
        registry.lose(rank)
        registry.entries[rank].lost_at = 1000.0 + rank
    folders = [RankFolder(tmp_path, rank) for rank in range(3)]
    told = [judge(folders, MpirunResult(255, ended_at=end), registry).message for end in (2000.0, float("inf"))]
    assert [words.partition("\n")[0] for words in told] == [
        "rank 0 of 3 died first: it was killed, or left by os._exit",
        "rank 2 of 3 had not begun",
    ]


def test_a_host_of_which_a_rank_has_told_its_failure_is_not_lost(tmp_path: Path) -> None:
    ranks = outcomes("67", tmp_path)
    ranks[7].entry.last_word, ranks[7].entry.failure = "failed", Failure(7, 1000.0, "ValueError: odd", "", 1)
    ranks[7] = RankOutcome.of(ranks[7].folder, ranks[7].entry)
    assert FirstFailure.of(ranks[6], ranks, OPENMPI_LOST).of_host == ()


@pytest.mark.parametrize(
    ("output", "is_explained"), [(OPENMPI_KILLED, True), (MPICH_KILLED, True), ("", False), (OPENMPI_ABORTED, False)]
)
def test_a_death_is_explained_where_mpirun_names_its_signal(output: str, is_explained: bool, tmp_path: Path) -> None:
    ranks = outcomes("7", tmp_path)
    assert FirstFailure.of(ranks[7], ranks, output).is_explained is is_explained
