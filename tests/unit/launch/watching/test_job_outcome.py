from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mpiparallel.cluster.flight.recorder import FlightRecorder
from mpiparallel.launch.job.rank_folder import Failure, RankFolder
from mpiparallel.launch.watching.job_outcome import judge
from mpiparallel.launch.watching.mpirun_result import MpirunResult

STACK = """Current thread 0x0000 (most recent call first):
  File "train.py", line {line} in step
  File "train.py", line 90 in <module>
"""


@pytest.fixture
def folders(tmp_path: Path) -> list[RankFolder]:
    made = [RankFolder(tmp_path, rank) for rank in range(3)]
    for folder in made:
        folder.path.mkdir()
        folder.log.write_text(f"words of {folder.rank}\n")
    return made


def complete(*folders: RankFolder) -> None:
    for folder in folders:
        folder.completed.write_text("0\n")


def failure(rank: int, time: float, code: int = 1) -> Failure:
    return Failure(rank, time, f"ValueError: of {rank}", f"Traceback of {rank}\nValueError: of {rank}\n", code)


def test_job_of_completed_ranks_ended_well(folders: list[RankFolder]) -> None:
    complete(*folders)
    assert (judge(folders, MpirunResult(0)).code, judge(folders, MpirunResult(0)).message) == (0, "")


def test_exit_code_zero_of_mpirun_is_not_trusted(folders: list[RankFolder]) -> None:
    complete(folders[0], folders[2])
    outcome = judge(folders, MpirunResult(0, output="lost communication with a daemon"))
    assert outcome.code == 1
    assert "rank 1 of 3 did not complete" in outcome.message
    assert "lost communication with a daemon" in outcome.message


def test_first_failure_is_named_with_its_traceback(folders: list[RankFolder]) -> None:
    folders[2].write_failure(failure(2, 20.0))
    folders[1].write_failure(failure(1, 10.0, code=3))
    outcome = judge(folders, MpirunResult(3))
    assert outcome.code == 3
    for words in ("rank 1 of 3 failed first: ValueError: of 1", "Traceback of 1", str(folders[1].log)):
        assert words in outcome.message
    assert "of 2" not in outcome.message


def test_what_a_rank_did_in_a_stage_of_a_pipeline_when_it_failed_or_died_is_told(folders: list[RankFolder]) -> None:
    recorder = FlightRecorder(folders[1].flight, 1, 3)
    recorder.begin_action(0, recorder.text("forward pass of micro-batch #"), 5)
    died = judge(
        folders,
        MpirunResult(
            137, "prterun noticed that process rank 1 with PID 401 on node node1 exited on\nsignal 9 (Killed)."
        ),
    )
    assert died.message.startswith("rank 1 of 3 died first, in stage 0's forward pass of micro-batch 5: ")
    folders[2].write_failure(replace(failure(2, 20.0), action="stage 1's update"))
    failed = judge(folders, MpirunResult(1))
    assert failed.message.startswith("rank 2 of 3 failed first, in stage 1's update: ValueError: of 2")


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (MpirunResult(137), 137),
        (MpirunResult(9, "[mpiexec@vm] Exit codes: [vm] 0,9,9"), 137),
        (MpirunResult(5), 5),
    ],
)
def test_exit_code_of_a_rank_that_vanished_is_normalized(
    folders: list[RankFolder], result: MpirunResult, code: int
) -> None:
    complete(folders[0])
    outcome = judge(folders, result)
    assert outcome.code == code
    assert "ranks 1, 2 of 3 did not complete" in outcome.message


def test_mpirun_that_a_signal_ended_is_named(folders: list[RankFolder]) -> None:
    complete(folders[0])
    outcome = judge(folders, MpirunResult(-9))
    assert outcome.code == 137
    assert outcome.message.startswith("mpirun itself was killed by SIGKILL")


def test_killed_rank_is_named_if_mpirun_knows_it(folders: list[RankFolder]) -> None:
    openmpi = MpirunResult(
        137, "prterun noticed that process rank 1 with PID 401 on node node1 exited on\nsignal 9 (Killed)."
    )
    assert judge(folders, openmpi).message.startswith("rank 1 of 3 died first: killed by SIGKILL")
    assert "ranks 0, 1, 2 of 3 did not complete" in judge(folders, MpirunResult(9, "PID 401 RUNNING AT node1")).message


def test_failure_after_all_ranks_completed_is_told(folders: list[RankFolder]) -> None:
    complete(*folders)
    outcome = judge(folders, MpirunResult(139))
    assert outcome.code == 139
    assert "all 3 ranks completed, but mpirun" in outcome.message


def test_timeout_says_where_the_ranks_were(folders: list[RankFolder]) -> None:
    complete(folders[2])
    folders[0].stack.write_text(
        'Thread 0x1 (most recent call first):\n  File "t.py", line 1 in a\n\n' + STACK.format(line=7)
    )
    outcome = judge(folders, MpirunResult(143, timeout=2.0))
    assert outcome.code == 124
    assert 'rank 0: File "train.py", line 7 in step' in outcome.message
    assert "rank 1: gave no sign" in outcome.message


def test_ranks_at_one_place_are_told_together(folders: list[RankFolder]) -> None:
    for folder in folders:
        folder.stack.write_text(STACK.format(line=5))
    assert 'ranks 0, 1, 2: File "train.py", line 5' in judge(folders, MpirunResult(143, timeout=2.0)).message


def test_failure_before_the_timeout_is_the_cause_and_one_after_it_is_not(folders: list[RankFolder]) -> None:
    folders[1].write_failure(failure(1, 10.0))
    assert judge(folders, MpirunResult(143, timeout=2.0, ended_at=11.0)).code == 1
    assert judge(folders, MpirunResult(143, timeout=2.0, ended_at=9.0)).code == 124


def test_interrupted_job_ends_with_the_code_of_the_signal(folders: list[RankFolder]) -> None:
    outcome = judge(folders, MpirunResult(1, signal_number=2, ended_at=5.0))
    assert (outcome.code, outcome.message) == (130, "ended by SIGINT")


def test_job_that_completes_after_a_signal_ended_well(folders: list[RankFolder]) -> None:
    complete(*folders)
    assert judge(folders, MpirunResult(0, signal_number=15, ended_at=5.0)).code == 0


def test_clearing_leaves_what_is_not_ours(folders: list[RankFolder]) -> None:
    complete(folders[0])
    folders[0].write_failure(failure(0, 1.0))
    (folders[0].path / "weights.bin").write_text("mine")
    folders[0].clear()
    assert [path.name for path in folders[0].path.iterdir()] == ["weights.bin"]
