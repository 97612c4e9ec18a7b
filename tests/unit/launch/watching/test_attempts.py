from __future__ import annotations

import os
import signal
import threading
from itertools import pairwise, repeat
from types import SimpleNamespace

import pytest

from mpiparallel.launch.watching import attempts as module
from mpiparallel.launch.watching.attempts import Attempts
from mpiparallel.launch.watching.job_outcome import JobOutcome
from tests.conformance import patience

DEATH = JobOutcome(137, "rank 1 died")
FIRST_PAUSE = module._FIRST_PAUSE_SECONDS


@pytest.fixture(autouse=True)
def in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE_SECONDS", 0.001)


def run(outcomes: list[JobOutcome], restarts: int) -> tuple[JobOutcome, list[int], list[str]]:
    """Return how it ended, the attempts that were made, and what was said; the last outcome comes again and again."""
    made: list[int] = []
    said: list[str] = []

    def start(attempt: int) -> JobOutcome:
        made.append(attempt)
        return outcomes[min(attempt, len(outcomes) - 1)]

    return Attempts(restarts, said.append).run(start), made, said


@pytest.mark.parametrize("restarts", [0, 1, 3])
def test_job_that_dies_again_and_again_ends(restarts: int) -> None:
    ended, made, _ = run([DEATH], restarts)
    assert (ended, made) == (DEATH, list(range(restarts + 1)))


def test_job_that_recovers_ends_well_and_says_why_it_was_restarted() -> None:
    ended, made, said = run([DEATH, DEATH, JobOutcome(0)], 3)
    assert (ended.code, made) == (0, [0, 1, 2])
    assert said[0] == "error: rank 1 died"
    assert "restart 1 of 3" in said[1]
    assert ".attempt0" in said[1]


@pytest.mark.parametrize(
    "outcome",
    [
        JobOutcome(0),
        JobOutcome(2, "refused"),
        JobOutcome(85, "preempted"),
        JobOutcome(130, by_user=True),
        JobOutcome(124, by_user=True),
    ],
)
def test_what_did_not_fail_by_itself_is_not_restarted(outcome: JobOutcome) -> None:
    assert run([outcome], 3)[1] == [0]


def test_same_error_twice_is_not_tried_a_third_time() -> None:
    ended, made, said = run([JobOutcome(1, "odd", cause="1 ValueError: odd")], 1000)
    assert (ended.code, made) == (1, [0, 1])
    assert said[-1] == "the same error twice: another restart would not mend it"


def test_another_error_each_time_uses_all_restarts() -> None:
    outcomes = [JobOutcome(1, "odd", cause=f"1 ValueError: {number % 2}") for number in range(9)]
    assert run(outcomes, 5)[1] == list(range(6))


def test_start_that_fails_is_tried_once_more_without_any_restart() -> None:
    never = JobOutcome(213, "no rank has begun", has_begun=False)
    assert run([never], 0)[1] == [0, 1]
    assert run([never, JobOutcome(0)], 0)[0].code == 0


def test_pauses_grow_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST_PAUSE_SECONDS", 0.004)
    said = run([DEATH], 5)[2]
    assert [line.split(" in ")[1].split(" s;")[0] for line in said if "restart " in line] == [
        "0.001", "0.002", "0.004", "0.004", "0.004"
    ]  # fmt: skip


def test_signal_between_two_attempts_ends_the_job_for_a_requeue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE_SECONDS", 3600.0)
    former = signal.getsignal(signal.SIGUSR1)
    outcomes = repeat(DEATH)

    def tell() -> None:
        patience.wait_until(lambda: signal.getsignal(signal.SIGUSR1) is not former)
        os.kill(os.getpid(), signal.SIGUSR1)

    # Where another thread takes it, no wait of this one is interrupted.
    teller = threading.Thread(target=tell)
    teller.start()
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    try:
        ended = Attempts(3, str, [signal.SIGUSR1]).run(lambda attempt: next(outcomes))
    finally:
        teller.join()
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
    assert ended.code == 85
    assert signal.getsignal(signal.SIGUSR1) is former


def test_after_a_signal_during_an_attempt_that_dies_no_other_is_made() -> None:
    said: list[str] = []

    def start(attempt: int) -> JobOutcome:
        os.kill(os.getpid(), signal.SIGUSR1)
        return DEATH

    ended = Attempts(3, said.append, [signal.SIGUSR1]).run(start)
    assert (ended.code, said) == (85, ["error: rank 1 died"])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that goes on only where somebody sleeps, and the pauses of a real job."""
    told = SimpleNamespace(now=100.0)
    told.monotonic = lambda: told.now
    told.sleep = lambda seconds: setattr(told, "now", told.now + seconds)
    monkeypatch.setattr(module, "time", told)
    monkeypatch.setattr(module, "_FIRST_PAUSE_SECONDS", FIRST_PAUSE)
    return told


def test_between_attempts_a_job_waits_from_a_second_to_half_a_minute_and_says_so(clock: SimpleNamespace) -> None:
    said: list[str] = []
    begun: list[float] = []

    def start(attempt: int) -> JobOutcome:
        begun.append(clock.now)
        return DEATH

    Attempts(8, said.append).run(start)
    pauses = [1, 2, 4, 8, 16, 30, 30, 30]
    assert [later - before for before, later in pairwise(begun)] == pytest.approx(pauses)
    assert said[1::2] == [
        f"restart {number + 1} of 8 in {pause} s; the logs of this attempt get .attempt{number} after their names"
        for number, pause in enumerate(pauses)
    ]
    assert said[::2] == ["error: rank 1 died"] * 8


def test_a_start_that_fails_is_no_restart_and_is_tried_again_once_only(clock: SimpleNamespace) -> None:
    never = JobOutcome(213, "no rank has begun", has_begun=False)
    ended, made, said = run([never, never, JobOutcome(0)], 1)
    assert (ended.code, made) == (0, [0, 1, 2])
    logs = "the logs of this attempt get .attempt{} after their names"
    assert said == [
        "error: no rank has begun",
        f"mpirun did not start the ranks: tried once more in 1 s; {logs.format(0)}",
        "error: no rank has begun",
        f"restart 1 of 1 in 1 s; {logs.format(1)}",
    ]


def test_the_same_error_twice_is_told_only_where_there_are_restarts_left() -> None:
    odd = JobOutcome(1, "odd", cause="1 ValueError: odd")
    _, made, said = run([odd], 1)
    assert (made, "the same error twice" in "".join(said)) == ([0, 1], False)
    # A death in between is another end.
    _, made, said = run([odd, DEATH, odd], 9)
    assert (made, said[-1]) == ([0, 1, 2, 3], "the same error twice: another restart would not mend it")


def test_a_job_that_is_preempted_between_two_attempts_ends_with_a_mend() -> None:
    def start(attempt: int) -> JobOutcome:
        os.kill(os.getpid(), signal.SIGUSR2)
        return DEATH

    ended = Attempts(3, str, [signal.SIGUSR2]).run(start)
    assert ended == JobOutcome(85, "preempted between two attempts: start again with the same command")
