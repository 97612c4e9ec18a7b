"""The block that ends a failed job: its last lines, the places of its ranks, what mpirun said, and all logs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import mpiparallel
from mpiparallel.launch.control.rank_registry import RankRegistry
from mpiparallel.launch.job.rank_folder import Failure, RankFolder
from mpiparallel.launch.watching.mpirun_result import MpirunResult
from mpiparallel.launch.watching.rank_outcome import RankOutcome
from mpiparallel.launch.watching.summary import Summary, end_of_log, last_lines

PACKAGE = Path(mpiparallel.__file__).parent
FATAL = "Fatal Python error: Segmentation fault"


def thread(*frames: str) -> str:
    lines = [f"  File {frame}" for frame in frames]
    return "\n".join(["Current thread 0x0000 (most recent call first):", *lines, ""])


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("one\n\n\n", ["one"]),
        ("".join(f"{number}\n" for number in range(12)), [str(number) for number in range(2, 12)]),
        ("x" * 240 + "\n" + "y" * 241, ["x" * 240, "y" * 240]),
        (
            f'words\n{FATAL}\n\nThread (most recent call first):\n  File "train.py", line 3 in step\n'
            f'  File "{PACKAGE}/launch/job/script.py", line 9 in run\n  File "<frozen runpy>", line 8 in run\n',
            [FATAL, "Thread (most recent call first):", '  File "train.py", line 3 in step'],
        ),
        (f"{FATAL}\n" + "".join(f"{number}\n" for number in range(12)), [FATAL, *map(str, range(9))]),
        (f"it said {FATAL}\nlast", [f"it said {FATAL}", "last"]),
    ],
)
def test_the_last_ten_lines_are_told_and_of_a_fatal_error_the_first_ten_that_are_the_users(
    text: str, lines: list[str], tmp_path: Path
) -> None:
    (tmp_path / "log").write_text(text)
    assert last_lines(tmp_path / "log") == lines


def test_the_end_of_a_log_is_its_last_16_kib_and_nothing_of_a_file_that_is_not_there(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert end_of_log(log) == ""
    log.write_bytes(b"a\xff" + b"b" * (16 * 1024 - 1))
    assert end_of_log(log) == "\ufffd" + "b" * (16 * 1024 - 1)
    log.write_bytes(b"short")
    assert end_of_log(log) == "short"


def outcomes(folder: Path, *stacks: str | None) -> list[RankOutcome]:
    """Ranks that were started, of which each with a stack has not ended, and each with None has completed."""
    registry = RankRegistry(len(stacks))
    for rank, stack in enumerate(stacks):
        registry.call(rank, rank, "n0", 100 + rank)
        own = RankFolder(folder, rank)
        own.path.mkdir()
        if stack is None:
            registry.hear(rank, "completed", None)
        elif stack:
            own.stack.write_text(stack)
    return [RankOutcome.of(RankFolder(folder, entry.rank), entry) for entry in registry]


STEP, READ = '"train.py", line 3 in step', '"train.py", line 9 in read'
OURS, MPI = f'"{PACKAGE}/nn/cell.py", line 1 in call', '"/lib/mpi4py/run.py", line 1 in main'


@pytest.mark.parametrize(
    ("stack", "place"),
    [
        (thread(STEP, READ), f"File {STEP}"),
        (thread(OURS, MPI, READ), f"File {READ}"),
        (thread(OURS, MPI), f"File {OURS}"),
        (f"{thread(READ).replace('Current thread', 'Thread')}\n{thread(STEP)}", f"File {STEP}"),
        ("nonsense", "gave no sign"),
        ("", "gave no sign"),
    ],
)
def test_the_place_of_a_rank_is_the_innermost_line_of_the_user_in_the_main_thread(
    stack: str, place: str, tmp_path: Path
) -> None:
    (ranks, logs) = outcomes(tmp_path, stack), f"  all logs: {tmp_path}/device*/train.log*, of mpirun: "
    told = Summary("late", ranks, MpirunResult(1)).of_places()
    assert told.splitlines() == ["late", f"  rank 0: {place}", f"{logs}{tmp_path}/launcher.log"]


QUIET = MpirunResult(1, keeps_logs=False)


@pytest.mark.parametrize(
    ("stacks", "places", "of_job", "of_hang"),
    [
        ((None, None), ["  at their end"], [], []),
        ((None, thread(STEP)), [f"  rank 1: File {STEP}"], [], [f"  rank 1: File {STEP}"]),
        (
            (thread(STEP), thread(READ), thread(STEP)),
            [f"  ranks 0, 2: File {STEP}", f"  rank 1: File {READ}"],
            [f"  ranks 0, 2: File {STEP}", f"  rank 1: File {READ}"],
            [f"  ranks 0, 2: File {STEP}", f"  rank 1: File {READ}"],
        ),
        (
            (thread(STEP), ""),
            [f"  rank 0: File {STEP}", "  rank 1: gave no sign"],
            [f"  rank 0: File {STEP}", "  rank 1: gave no sign"],
            [f"  rank 0: File {STEP}"],
        ),
    ],
)
def test_the_places_of_ranks_that_have_not_ended_are_told_but_one_place_of_all_only_where_it_matters(
    stacks: tuple[str | None, ...], places: list[str], of_job: list[str], of_hang: list[str], tmp_path: Path
) -> None:
    summary = Summary("late", outcomes(tmp_path, *stacks), QUIET)
    assert summary.of_places().splitlines() == ["late", *places]
    assert summary.of_job().splitlines() == ["late", *of_job]
    assert summary.of_hang().splitlines() == ["late", *of_hang]


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("\n \n", []),
        ("\none\n\n two \n", ["  mpirun said:", "    one", "    ", "     two"]),
        ("\n".join(map(str, range(21))), ["  mpirun said:", *(f"    {number}" for number in range(1, 21))]),
    ],
)
def test_the_last_twenty_lines_of_mpirun_are_told(output: str, said: list[str], tmp_path: Path) -> None:
    told = Summary("odd", outcomes(tmp_path, None), MpirunResult(1, output, keeps_logs=False)).of_job()
    assert told.splitlines() == ["odd", *said]


@pytest.mark.parametrize(
    ("started_at", "words"), [(0.0, ""), (990.0, ", 10.0 s after the start"), (1001.0, ", 0.0 s after the start")]
)
def test_clocks_that_differ_make_no_death_before_the_start(started_at: float, words: str, tmp_path: Path) -> None:
    ranks = outcomes(tmp_path, "")
    ranks[0].entry.lost_at = 1000.0
    cause = RankOutcome.of(ranks[0].folder, ranks[0].entry)
    result = MpirunResult(1, started_at=started_at, keeps_logs=False)
    clock = time.strftime("%H:%M:%S", time.localtime(1000.0))
    assert Summary("died", [cause], result).of_death(cause).splitlines() == ["died", f"  at {clock}{words}, on host n0"]


def test_only_the_first_failure_after_a_death_is_told_and_only_ranks_that_ended_after_it(tmp_path: Path) -> None:
    ranks = outcomes(tmp_path, "", "", "", "", None)
    for rank, moment in ((0, 990.0), (1, 1000.0), (2, 1002.0), (3, 1001.0)):
        ranks[rank].entry.lost_at = moment
        if rank in (2, 3):
            ranks[rank].entry.last_word = "failed"
            ranks[rank].entry.said_at = moment
            ranks[rank].entry.failure = Failure(rank, moment, f"RankFailureError: of {rank}", "T", 1)
    ranks = [RankOutcome.of(one.folder, one.entry) for one in ranks]
    death = Summary("died", ranks, QUIET).of_death(ranks[1]).splitlines()
    assert death[2:] == ["  ended because of it: ranks 2, 3", "  then rank 3 failed: RankFailureError: of 3"]
    failure = Summary("failed", ranks, QUIET).of_failure(ranks[3]).splitlines()
    assert failure[1] == "    T"
    assert failure[3:] == ["  ended because of it: rank 2"]


def test_of_a_rank_of_which_nothing_is_known_no_time_is_told(tmp_path: Path) -> None:
    (cause,) = outcomes(tmp_path, "")
    assert Summary("died", [cause], QUIET).of_death(cause) == "died"
    assert Summary("", [cause], QUIET).of_survival([cause]) == "rank 0 of 1 died; the others went on and completed"


@pytest.mark.parametrize(
    ("log", "is_above"),
    [("T\nValueError: odd\n", True), ("T\n", False), ("", False), ("ValueError: odd", True)],
)
@pytest.mark.parametrize("shown", [True, False])
def test_only_what_was_shown_to_its_last_line_is_not_told_again(
    log: str, is_above: bool, shown: bool, tmp_path: Path
) -> None:
    ranks = outcomes(tmp_path, "", None)
    entry = ranks[0].entry
    entry.last_word, entry.failure = "failed", Failure(0, 1000.0, "ValueError: odd", "T\nValueError: odd\n", 1)
    ranks[0].folder.log.write_text(log)
    cause = RankOutcome.of(ranks[0].folder, entry)
    result = MpirunResult(1, shown=frozenset([0] if shown else [1]), keeps_logs=False)
    told = Summary("failed", [cause, ranks[1]], result).of_failure(cause).splitlines()[1:-1]
    is_there = ["  its traceback is above"] if shown and is_above else ["    T", "    ValueError: odd"]
    assert told == is_there
