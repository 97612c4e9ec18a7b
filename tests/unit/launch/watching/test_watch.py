"""When the launcher tells mpirun to end, by which signal, and when it kills it: by a clock that the test moves."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from mpiparallel.cluster.preemption_signal import PreemptionHandler
from mpiparallel.launch.job.output_selection import OutputSelection
from mpiparallel.launch.job.rank_folder import Failure
from mpiparallel.launch.watching.run_policy import RunPolicy
from mpiparallel.launch.watching.watch import Watch
from tests.unit.launch.watching.bench import PID, Bench

INT, TERM, HUP, CONT = "SIGINT", "SIGTERM", "SIGHUP", "SIGCONT"


def test_a_job_is_told_to_end_when_its_time_is_over_less_what_was_spent_and_killed_five_seconds_later(
    bench: Bench,
) -> None:
    watch = bench.watch(timeout=10.0, spent=4.0)
    bench.heard(watch, (6.0, []))
    assert not watch.timed_out
    bench.heard(watch, (0.25, [TERM, CONT]), (5.25, []), (5.5, ["killed"]))
    assert (watch.timed_out, watch.signal_number, watch.ended_at) == (True, None, 1006.25)
    assert bench.killed_children == [PID]


def test_without_a_timeout_a_job_goes_on(bench: Bench) -> None:
    bench.heard(bench.watch(), (1e9, []))


def test_what_nobody_says_of_a_job_is_that_it_starts_now_within_this_host_and_ends_with_the_first_death(
    bench: Bench,
) -> None:
    policy = RunPolicy(timeout=10.0)
    bench.heard(bench.watch(timeout=10.0), (10.0, []), (10.25, [TERM, CONT]))
    assert (policy.spans_hosts, policy.survives_deaths, policy.keeps_logs, policy.attempt) == (False, False, True, 0)
    assert (policy.shown.ranks, policy.shown.is_prefixed, policy.preemption) == ((0,), False, (signal.SIGUSR1,))
    # All ranks must have begun within two minutes of the first.
    assert policy.start_timeout == 2 * 60


def test_signals_of_preemption_are_passed_on_and_end_nothing(bench: Bench) -> None:
    watch = bench.watch(preemption=(signal.SIGUSR1, signal.SIGTERM))
    watch._on_signal(signal.SIGUSR1, None)
    watch._on_signal(signal.SIGTERM, None)
    assert (bench.passed, bench.told, watch.signal_number) == ([signal.SIGUSR1, signal.SIGTERM], [], None)


def test_a_signal_of_preemption_that_came_before_the_watch_is_passed_on_and_one_that_comes_later_is_remembered(
    bench: Bench,
) -> None:
    early, late = (PreemptionHandler(number, None) for number in (signal.SIGUSR1, signal.SIGUSR2))
    former = {handler.number: signal.signal(handler.number, handler) for handler in (early, late)}
    try:
        signal.raise_signal(early.number)
        watch = bench.watch(preemption=(signal.SIGUSR1, signal.SIGUSR2))
        watch.process.poll = iter([None, 0, 0]).__next__
        bench.on_listen = lambda: signal.raise_signal(late.number)
        watch.to_end()
        assert bench.passed == [early.number, late.number]
        assert (late.has_come, signal.getsignal(late.number)) == (True, late)
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


@pytest.mark.parametrize(
    ("number", "told"),
    [(signal.SIGINT, [INT, CONT]), (signal.SIGTERM, [TERM, CONT]), (signal.SIGHUP, [TERM, CONT])],
)
def test_the_first_signal_of_the_user_ends_the_job_and_the_second_kills_it(
    bench: Bench, number: signal.Signals, told: list[str]
) -> None:
    watch = bench.watch()
    watch._on_signal(number, None)
    assert (bench.told, watch.signal_number, watch.ended_at) == (told, number, 1000.0)
    watch._on_signal(signal.SIGINT, None)
    assert bench.told == [*told, "killed"]
    assert watch.signal_number == number


@pytest.mark.parametrize(
    ("number", "steps"),
    [
        (signal.SIGINT, [(2.0, []), (2.25, [TERM, CONT]), (4.25, []), (4.5, ["killed"])]),
        (signal.SIGTERM, [(2.0, []), (2.25, ["killed"])]),
    ],
)
def test_an_interrupt_that_is_not_followed_becomes_a_termination_and_that_a_kill(
    bench: Bench, number: signal.Signals, steps: list[tuple[float, list[str]]]
) -> None:
    watch = bench.watch(timeout=1e6)
    watch._on_signal(number, None)
    bench.heard(watch, *steps)
    assert (watch.timed_out, watch.ended_at) == (False, 1000.0)


def test_ranks_that_have_not_called_long_after_the_first_are_waited_for_no_more(bench: Bench) -> None:
    bench.registry.call(1, 1, "elsewhere", 101)
    bench.registry.entries[1].called_at = 1000.0
    bench.registry.call(2, 2, "elsewhere", 102)
    bench.registry.entries[2].called_at = 1100.0
    bench.heard(bench.watch(start_timeout=120.0), (119.5, []), (120.0, [TERM, CONT]), (121.0, []), (121.5, ["killed"]))


@pytest.mark.parametrize("who", ["nobody calls", "all call", "those without a call have logs"])
def test_ranks_that_may_yet_begin_or_have_begun_are_waited_for(bench: Bench, who: str) -> None:
    if who == "all call":
        bench.all_call()
    elif who != "nobody calls":
        bench.registry.call(0, 0, "elsewhere", 100)
        bench.registry.entries[0].called_at = 1000.0
        for folder in bench.folders[1:]:
            folder.path.mkdir()
            folder.log.touch()
    bench.heard(bench.watch(start_timeout=120.0), (1e6, []))


@pytest.mark.parametrize(
    ("state", "sentence"),
    [("sleeping", "rank 1 waits"), ("stopped", "mpirun is stopped by a signal; rank 1 waits")],
)
def test_a_job_that_hangs_is_ended_with_the_sentence_that_says_who_waits(
    bench: Bench, state: str, sentence: str
) -> None:
    bench.all_call()
    watch = bench.watch()
    bench.heard(watch, (0.5, []))
    bench.hang, bench.state = "rank 1 waits", state
    # It looks closely twice a second.
    bench.heard(watch, (0.25, []), (0.5, [TERM, CONT]))
    assert watch.sentence == sentence


@pytest.mark.parametrize(("is_survived", "steps"), [(False, [(2.0, []), (2.25, [TERM, CONT])]), (True, [(9.0, [])])])
def test_two_seconds_after_a_death_mpirun_is_told_to_end_unless_deaths_are_survived(
    bench: Bench, is_survived: bool, steps: list[tuple[float, list[str]]]
) -> None:
    bench.all_call()
    bench.registry.entries[2].lost_at = 1000.0
    bench.heard(bench.watch(survives_deaths=is_survived), (0.0, []), *steps)


def test_a_rank_that_begins_to_fail_has_ten_seconds_for_its_words(bench: Bench) -> None:
    bench.all_call()
    bench.registry.entries[2].failing_at = 1000.0
    bench.heard(bench.watch(), (10.0, []), (10.25, []), (12.25, []), (12.5, [TERM, CONT]))


def test_two_seconds_after_a_failure_mpirun_is_told_to_end(bench: Bench) -> None:
    bench.all_call()
    bench.registry.hear(3, "failed", Failure(3, 1000.0, "ValueError", "", 1))
    bench.heard(bench.watch(survives_deaths=True), (0.0, []), (2.0, []), (2.25, [TERM, CONT]))


@pytest.mark.parametrize(("deaths", "seconds"), [(0, 15.0), (1, 5.0)])
def test_mpirun_that_stays_when_all_ranks_have_left_has_some_seconds_more(
    bench: Bench, deaths: int, seconds: float
) -> None:
    bench.all_call()
    for entry in bench.registry:
        if entry.rank >= deaths:
            bench.registry.hear(entry.rank, "completed", None)
        entry.lost_at = 1000.0
    watch = bench.watch(survives_deaths=True)
    bench.heard(watch, (0.0, []), (seconds, []), (seconds + 0.25, [TERM, CONT]))


def test_where_a_rank_has_died_mpirun_has_two_seconds_once_all_others_have_said_their_last_word(bench: Bench) -> None:
    bench.all_call()
    bench.registry.entries[0].lost_at = 1000.0
    for rank in (1, 2, 3):
        bench.registry.hear(rank, "completed", None)
    bench.heard(bench.watch(survives_deaths=True), (0.0, []), (2.0, []), (2.25, [TERM, CONT]))


def followed(bench: Bench, watch: Watch, *dead: int) -> bytes:
    """Let ``dead`` die, look who is followed, let each living rank print its number, and return what is shown."""
    for rank in dead:
        bench.registry.entries[rank].lost_at = bench.now
    watch._follow_survivor()
    for entry in bench.registry:
        if not entry.is_over:
            with bench.folders[entry.rank].log.open("ab") as log:
                log.write(b"%d" % entry.rank)
    bench.shown.clear()
    watch._tee.show()
    return b"".join(bench.shown)


def test_the_lowest_living_rank_is_shown_after_the_shown_one_and_after_that_the_next(logged: Bench) -> None:
    watch = logged.watch(survives_deaths=True)
    steps = [((), b"0"), ((3,), b"0"), ((0,), b"1"), ((), b"1"), ((1,), b"2"), ((2,), b"")]
    assert [followed(logged, watch, *dead) for dead, _ in steps] == [shown for _, shown in steps]


@pytest.mark.parametrize(
    ("policy", "shown"),
    [
        ({"survives_deaths": False}, b""),
        ({"survives_deaths": True}, b"1"),
        ({"survives_deaths": True, "shown": OutputSelection((0, 3), True)}, b""),
    ],
)
def test_another_rank_is_shown_only_where_deaths_are_survived_and_one_rank_is_shown_as_it_is(
    logged: Bench, policy: dict[str, Any], shown: bytes
) -> None:
    assert followed(logged, logged.watch(**policy), 0) == shown


def test_what_a_rank_prints_last_is_shown_without_an_end_of_its_line_too(logged: Bench) -> None:
    watch = logged.watch(shown=OutputSelection((0, 3), True))
    watch.process.poll = lambda: 0
    logged.folders[3].log.write_bytes(b"first\nlast words")
    watch.to_end()
    assert b"".join(logged.shown).splitlines() == [b"[3] first", b"[3] last words"]


@pytest.mark.parametrize("ended", [0, 1, 3, 4])
def test_who_waits_for_whom_is_looked_for_once_some_ranks_have_ended_and_others_have_not(
    bench: Bench, ended: int
) -> None:
    bench.all_call()
    for rank in range(ended):
        bench.registry.hear(rank, "completed", None)
    bench.hang = "rank 3 waits"
    bench.look_for_overdue = lambda now: None  # type: ignore[method-assign]
    assert bench.watch()._hang(bench.now) == ("rank 3 waits" if 0 < ended < 4 else None)


@pytest.mark.parametrize(("connected", "listened"), [(set(), 0), ({1}, 20)])
def test_last_words_are_heard_for_a_second_while_a_rank_is_connected(
    bench: Bench, connected: set[int], listened: int
) -> None:
    bench.connected, bench.now = connected, 0.0
    bench.watch()._hear_last_words()
    assert bench.listened in (listened, listened + (listened > 0))
