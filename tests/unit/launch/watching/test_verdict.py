"""How a job ended, by what its ranks said to the launcher and when they fell silent."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from mpiparallel.cluster.flight.recorder import FlightRecorder
from mpiparallel.launch.control.rank_registry import RankRegistry
from mpiparallel.launch.job.host_selection import place
from mpiparallel.launch.job.lost_output import LostOutput
from mpiparallel.launch.job.mapping import mapping
from mpiparallel.launch.job.rank_folder import Failure, RankFolder
from mpiparallel.launch.watching.job_outcome import JobOutcome, judge
from mpiparallel.launch.watching.mpirun_result import MpirunResult


@pytest.fixture
def folders(tmp_path: Path) -> list[RankFolder]:
    made = [RankFolder(tmp_path, rank) for rank in range(4)]
    for folder in made:
        folder.path.mkdir()
        folder.log.write_text("".join(f"line {line} of rank {folder.rank}\n" for line in range(30)))
    return made


def failure(rank: int, words: str, time: float, code: int = 1) -> Failure:
    return Failure(rank, time, words, f"Traceback of rank {rank}\n{words}\n", code)


def registered(story: str) -> RankRegistry:
    """Return what four ranks said: each word is a rank, what it did (c, p, d, b, f), and when; b, f with an error.

    >>> registered("0c1 1d2").entries[1].has_died
    True
    """
    registry = RankRegistry(4)
    for rank in range(4):
        registry.call(rank, rank, "n0", 100 + rank)
    for word in story.split():
        rank, deed, moment = int(word[0]), word[1], float(word[2:].split(":")[0])
        entry = registry.entries[rank]
        if deed in "cp":
            registry.hear(rank, {"c": "completed", "p": "preempted"}[deed], None)
        elif deed == "b":
            registry.hear(rank, "failing", failure(rank, word.split(":")[1], moment))
            entry.failing_at = moment
        elif deed == "f":
            registry.hear(rank, "failed", failure(rank, f"{word.split(':')[1].replace('_', ' ')}: odd", moment))
        if entry.last_word:
            entry.said_at = moment
        registry.lose(rank)
        entry.lost_at = moment
    return registry


def verdict(folders: list[RankFolder], story: str, result: MpirunResult) -> JobOutcome:
    return judge(folders, result, registered(story))


ABORTED = """MPI_ABORT was invoked on rank 0 in communicator MPI COMMUNICATOR 3 SPLIT FROM 0
  Proc: [[17003,1],2]
  Errorcode: 9

prterun has exited due to process rank 2 with PID 7357 on node vm calling
"abort". This may have caused other processes in the application to be
terminated by signals sent by prterun (as reported here).
"""
KILLED = "prterun noticed that process rank 2 with PID 7 on node n0 exited on\nsignal 9 (Killed)."


@pytest.mark.parametrize(
    ("story", "result", "code", "begin"),
    [
        ("0c1 1c1 2c1 3c1", MpirunResult(0), 0, ""),
        ("0c1 1c1 2c1 3c1", MpirunResult(139), 139, "all 4 ranks completed, but mpirun"),
        ("0c1 1c1 2c1 3c1", MpirunResult(139, KILLED), 137, "rank 2 of 4 was ended by SIGKILL after its script"),
        (
            "0c1 1c1 2c1 3c1",
            MpirunResult(9, "[mpiexec@n0] Exit codes: [n0] 9,9,3840,9"),
            15,
            "rank 2 of 4 left with exit code 15 after its script had ended",
        ),
        # Who of two was first is not known.
        (
            "0c1 1c1 2c1 3c1",
            MpirunResult(9, "[mpiexec@n0] Exit codes: [n0] 9,768,3840,9"),
            137,
            "all 4 ranks completed, but mpirun then ended with exit code 137",
        ),
        ("0c1 1c1 2c1", MpirunResult(0), 1, "rank 3 of 4 did not complete"),
        ("2d3 0d4 1d4 3d4", MpirunResult(137, KILLED), 137, "rank 2 of 4 died first: killed by SIGKILL"),
        ("2d3 0d4 1d4 3d4", MpirunResult(0), 1, "rank 2 of 4 died first: it was killed, or left by os._exit"),
        (
            "1d9 2d3",
            MpirunResult(9, "[mpiexec@n0] Exit codes: [n0] 9,9,1280,9"),
            5,
            "rank 2 of 4 died first: it left with exit",
        ),
        ("1f3:ValueError 2d4", MpirunResult(1), 1, "rank 1 of 4 failed first: ValueError: odd"),
        ("0f3.1:CommunicationError 2d3.5 1d3.9", MpirunResult(137, KILLED), 137, "rank 2 of 4 died first"),
        ("0f3.1:CommunicationError 2f3.5:KeyError", MpirunResult(1), 1, "rank 2 of 4 failed first: KeyError"),
        ("0f3.1:CommunicationError", MpirunResult(1), 1, "rank 0 of 4 failed first: CommunicationError"),
        ("2f3.1:CommunicationError_ranks_make_different_calls 0d3.2", MpirunResult(1), 1, "rank 2 of 4 failed first"),
        ("0d9 1b3:ValueError 2d9 3d9", MpirunResult(1), 1, "rank 1 of 4 failed first: ValueError"),
        ("0c1 1b3:ValueError 2c1 3c1", MpirunResult(0), 1, "rank 1 of 4 failed first: ValueError"),
        ("0p1 1p1 2p1 3p1", MpirunResult(0), 85, "preempted: committed"),
        ("0p1 1p1 2d3 3p1", MpirunResult(137, KILLED), 137, "rank 2 of 4 died first"),
        ("0d9 1d9 2d9 3d9", MpirunResult(-9, over_at=9.1), 137, "mpirun itself was killed by SIGKILL"),
        ("0d9 1d9 2d9 3d9", MpirunResult(-1, over_at=9.4), 129, "mpirun itself was killed by SIGHUP"),
        ("0d9 1d9 2d9 3d9", MpirunResult(-1, over_at=9.6), 1, "rank 0 of 4 died first"),
        ("2d3 0d9 1d9 3d9", MpirunResult(-11, over_at=9.1), 1, "rank 2 of 4 died first"),
        ("0c1", MpirunResult(-1, ended_at=8.0), 129, "ranks 1, 2, 3 of 4 did not complete"),
        ("0c1", MpirunResult(-9, ended_at=8.0), 137, "ranks 1, 2, 3 of 4 did not complete"),
        ("0d9 1d9 2d9 3d9", MpirunResult(143, signal_number=15, ended_at=8.0), 143, "ended by SIGTERM"),
        ("0d9 1d9 2d9 3d9", MpirunResult(143, timeout=8.0, ended_at=8.0), 124, "not ended after 8 s"),
        ("0c1", MpirunResult(143, sentence="rank 1 waits", ended_at=8.0), 86, "the job hung: rank 1 waits"),
        ("0c1 1c1 2c1 3c1", MpirunResult(143, sentence="rank 1 stays", ended_at=0.5), 86, "the job hung: rank 1 stays"),
    ],
)
def test_verdict(folders: list[RankFolder], story: str, result: MpirunResult, code: int, begin: str) -> None:
    outcome = verdict(folders, story, result)
    assert outcome.code == code
    assert outcome.message.startswith(begin)
    assert bool(outcome.message) == bool(code)


def test_a_mpirun_that_had_to_be_ended_after_ranks_that_completed_is_told_with_success(
    folders: list[RankFolder],
) -> None:
    outcome = verdict(folders, "0c1 1c1 2c1 3c1", MpirunResult(-15, ended_at=5.0))
    assert (outcome.code, outcome.message) == (
        0,
        "all 4 ranks completed; mpirun did not end after them, so it was ended",
    )


@pytest.mark.parametrize(
    ("story", "code", "begin"),
    [
        ("0c9 1c9 2d3 3c9", 0, "rank 2 of 4 died; the others went on and completed"),
        ("0p9 1p9 2d3 3p9", 85, "preempted: committed"),
        ("0c9 1f8:ValueError 2d3 3d8.5", 1, "rank 1 of 4 failed first: ValueError"),
        ("0f4:RankFailureError 1d4 2d3 3d4", 1, "rank 2 of 4 died first"),
        ("0d3 1d3 2d3 3d3", 1, "rank 0 of 4 died first"),
    ],
)
def test_verdict_where_deaths_are_survived(folders: list[RankFolder], story: str, code: int, begin: str) -> None:
    outcome = verdict(folders, story, MpirunResult(0, survives_deaths=True))
    assert outcome.code == code
    assert outcome.message.startswith(begin)


def test_without_logs_to_read_none_are_named(folders: list[RankFolder]) -> None:
    result = MpirunResult(137, KILLED, keeps_logs=False)
    lines = verdict(folders, "2d1003.5 0d1004 1c1001 3c1001", result).message.splitlines()
    assert lines[0].startswith("rank 2 of 4 died first: killed by SIGKILL")
    clock = time.strftime("%H:%M:%S", time.localtime(1003.5))
    assert lines[-2:] == [f"  at {clock}, on host n0", "  ended because of it: rank 0"]


def test_a_hang_that_a_rank_has_found_is_told_as_one(folders: list[RankFolder]) -> None:
    registry = registered("1d3")
    registry.entries[1].last_word = "failed"
    registry.entries[1].failure = failure(1, "rank 1 waits in Barrier for rank 0", 3.0, 86)
    outcome = judge(folders, MpirunResult(86), registry)
    assert (outcome.code, outcome.cause) == (86, "")
    assert outcome.message.splitlines() == [
        "the job hung: rank 1 waits in Barrier for rank 0",
        f"  all logs: {folders[0].log_dir}/device*/train.log*, of mpirun: {folders[0].log_dir}/launcher.log",
    ]


@pytest.mark.parametrize(
    ("called", "result", "code", "headline", "has_begun"),
    [
        ((), MpirunResult(213), 213, "no rank has begun: mpirun ended with exit code 213", False),
        ((), MpirunResult(0), 1, "no rank has begun: mpirun ended with exit code 0", False),
        ((0, 1, 2), MpirunResult(-15, ended_at=5.0), 143, "rank 3 of 4 had not begun", True),
        ((0, 1), MpirunResult(-15, ended_at=5.0), 143, "ranks 2, 3 of 4 had not begun", True),
        ((0, 1, 2, 3), MpirunResult(-9, ended_at=5.0), 137, "ranks 0, 1, 2, 3 of 4 did not complete, and left", True),
    ],
)
def test_ranks_that_have_not_begun_are_told_apart_from_those_that_did_not_complete(
    tmp_path: Path, called: tuple[int, ...], result: MpirunResult, code: int, headline: str, has_begun: bool
) -> None:
    registry = RankRegistry(4)
    for rank in called:
        registry.call(rank, rank, "n0", 100 + rank)
    outcome = judge([RankFolder(tmp_path, rank) for rank in range(4)], result, registry)
    assert (outcome.code, outcome.has_begun) == (code, has_begun)
    assert outcome.message.startswith(headline)


def test_a_rank_that_ended_well_is_not_blamed_for_what_another_says_of_it(folders: list[RankFolder]) -> None:
    registry = registered("1c2 2f3:ReshardError_rank_1")
    told = registry.entries[2].failure
    assert told
    registry.entries[2].failure = replace(told, origin=1)
    assert judge(folders, MpirunResult(1), registry).message.startswith("rank 2 of 4 failed first: ReshardError rank 1")


def test_block_of_a_death_has_last_lines_time_victims_and_logs(folders: list[RankFolder]) -> None:
    folders[2].log.write_bytes(b"first\n" * 50 + b"loss \x1b[31m nan\xff\n" + b"x" * 1000)
    lines = verdict(
        folders, "2d1003.5 0d1004 1d1004 3c1001", MpirunResult(137, KILLED, started_at=1000.0)
    ).message.splitlines()
    assert lines[1] == "    its last lines:"
    assert lines[2:10] == ["    first"] * 8
    assert lines[10:12] == ["    loss \x1b[31m nan\ufffd", f"    {'x' * 240}"]
    assert lines[12].endswith("3.5 s after the start, on host n0")
    assert lines[13] == "  ended because of it: ranks 0, 1"
    assert lines[14] == f"  its log: {folders[2].log}"
    assert len(lines) == 16


def test_why_the_others_could_not_go_on_is_told(folders: list[RankFolder]) -> None:
    result = MpirunResult(1, survives_deaths=True)
    message = verdict(folders, "2d3 0f5:RankFailureError 1f4:RankFailureError 3d9", result).message
    assert "  then rank 1 failed: RankFailureError: odd\n" in message


def test_what_was_shown_is_not_told_again(folders: list[RankFolder]) -> None:
    result = MpirunResult(1, shown=frozenset([1]))
    with folders[1].log.open("a") as log:
        log.write(failure(1, "ValueError: odd", 3.0).traceback)
    assert "its traceback is above" in verdict(folders, "1f3:ValueError", result).message
    assert "Traceback of rank" not in verdict(folders, "1f3:ValueError", result).message
    assert "Traceback of rank 2" in verdict(folders, "2f3:ValueError", result).message


def test_traceback_that_could_not_be_shown_is_told(folders: list[RankFolder]) -> None:
    assert "Traceback of rank 1" in verdict(folders, "1f3:ValueError", MpirunResult(1, shown=frozenset([1]))).message


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("SystemExit: 2", "it left with exit code 2"),
        ("SystemExit", "it left with exit code 2"),
        ("SystemExit: no data", "no data"),
    ],
)
def test_of_a_script_that_left_the_last_lines_are_told_for_it_has_no_traceback(
    folders: list[RankFolder], words: str, said: str
) -> None:
    registry = registered("1d3")
    registry.entries[1].last_word, registry.entries[1].failure = "failed", failure(1, words, 3.0, 2)
    elsewhere = judge(folders, MpirunResult(2), registry).message
    assert elsewhere.startswith(f"rank 1 of 4 failed first: {said}\n    its last lines:\n    line 20 of rank 1\n")
    here = judge(folders, MpirunResult(2, shown=frozenset([1])), registry).message
    assert here.startswith(f"rank 1 of 4 failed first: {said}\n  its last lines are above\n")
    assert "raceback" not in elsewhere + here


def test_only_what_failed_by_itself_may_go_on(folders: list[RankFolder]) -> None:
    stories = [
        ("2d3", MpirunResult(1)),
        ("2d3", MpirunResult(1, signal_number=15)),
        ("2d3", MpirunResult(1, timeout=4.0)),
    ]
    assert [verdict(folders, *story).may_go_on for story in stories] == [True, False, False]


def test_same_error_of_the_same_rank_has_the_same_cause(folders: list[RankFolder]) -> None:
    causes = [
        verdict(folders, story, MpirunResult(1)).cause
        for story in ("1f3:ValueError", "1f9:ValueError", "2f3:ValueError")
    ]
    assert causes[0] == causes[1] != causes[2]
    assert not verdict(folders, "1d3", MpirunResult(1)).cause


def test_attempts_keep_their_files_and_a_new_job_removes_them(folders: list[RankFolder]) -> None:
    folder = folders[0]
    folder.begin(1)
    folder.log.write_text("second")
    folder.begin(2)
    assert (folder.path / "train.log0.attempt1").read_text() == "second"
    assert "line 29" in (folder.path / "train.log0.attempt0").read_text()
    folder.begin(0)
    assert not list(folder.path.iterdir())


def test_mapping_names_host_and_device_of_each_rank() -> None:
    lines = mapping(3, place(3, None, None, {}), None).splitlines()
    assert lines == [
        "rank  host       device", "0     localhost  0", "1     localhost  1", "2     localhost  2"
    ]  # fmt: skip


def test_record_of_a_failure_that_is_damaged_is_a_failure_all_the_same(folders: list[RankFolder]) -> None:
    for content in (b"", b"{", b"[]", b'{"rank": 0}', b"\xff", b"[" * 100_000):
        folders[0].failure.write_bytes(content)
        found = folders[0].read_failure()
        assert found is not None
        assert "cannot be read" in found.exception


@pytest.mark.parametrize(
    "story",
    ["2f3:ReshardError_rank_1 1f4:ReshardError_rank_1", "2f3:ReshardError_rank_1 1d3.1", "2f3:ReshardError_rank_1"],
)
def test_error_that_all_raise_because_of_one_rank_is_told_of_it(folders: list[RankFolder], story: str) -> None:
    registry = registered(story)
    for entry in registry:
        if entry.failure:
            entry.failure = replace(entry.failure, origin=1)
    told = judge(folders, MpirunResult(1), registry).message
    assert told.startswith("rank 1 of 4 failed first: ReshardError rank 1: odd\n")
    assert str(folders[1].log) in told


@pytest.mark.parametrize(
    ("story", "output", "log", "code"),
    [
        ("0d3 1d3 2d3 3d3", ABORTED, "", 9),
        ("0d3 1d3 2f2:KeyError 3d3", ABORTED, "", 9),
        ("0d3 1d3 2d3 3d3", "", "Abort(9) on node 2 (rank 2 in comm 0): application called MPI_Abort(comm, 9)\n", 9),
        ("0d3 1d3 2c3 3d3", "", "Abort(0) on node 2 (rank 2 in comm 0): application called MPI_Abort(comm, 0)\n", 1),
    ],
)
def test_rank_that_has_called_abort_is_named_with_its_code(
    folders: list[RankFolder], story: str, output: str, log: str, code: int
) -> None:
    folders[2].log.write_text(log)
    outcome = verdict(folders, story, MpirunResult(1, output))
    assert outcome.message.startswith("rank 2 of 4 ended the job: it called MPI_Abort with code ")
    assert outcome.code == code


@pytest.mark.parametrize(
    ("story", "waiting"),
    [
        # Rank 2 may only be slow: the call has returned in another one, which waits with the others by now.
        ("0d3 1d3 2d3 3d3", (0, 1, 3)),
        ("0d3 1d3 2d3 3d3", ()),
        # It has gone on to its end meanwhile.
        ("0c3 1c3 2d3 3c3", ()),
        ("0c3 1c3 2c3 3c3", ()),
    ],
)
def test_nobody_is_named_for_an_abort_of_which_only_the_code_of_mpirun_tells(
    folders: list[RankFolder], story: str, waiting: tuple[int, ...]
) -> None:
    for folder in folders:
        recorder = FlightRecorder(folder.flight, folder.rank, len(folders))
        if folder.rank in waiting:
            recorder.enter(recorder.group(range(len(folders))), recorder.text("Barrier"), 0, 0)
    outcome = verdict(folders, story, MpirunResult(9))
    assert outcome.message.startswith("one of 4 ranks ended the job: it called MPI_Abort with code 9; no log has")
    assert outcome.code == 9


def test_what_a_rank_says_with_its_last_word_of_lost_output_is_kept() -> None:
    registry, lost = RankRegistry(2), LostOutput(2000, "No space left on device")
    registry.hear(0, "completed", None, lost)
    registry.hear(1, "completed", None)
    assert [entry.lost for entry in registry] == [lost, LostOutput()]
