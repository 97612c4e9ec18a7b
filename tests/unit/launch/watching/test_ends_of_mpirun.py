"""When an mpirun that goes on after its ranks is ended, what is said of it, and how a watch leaves its process."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from mpiparallel.launch.job.output_selection import OutputSelection
from mpiparallel.launch.watching import watch as module
from tests.unit.launch.watching.bench import PID, Bench

TERM = ["SIGTERM", "SIGCONT"]


@pytest.fixture
def handlers() -> Iterator[dict[int, Any]]:
    """Handlers as Python has them at its start, whatever the tests were started by; those of before come back."""
    usual: dict[int, Any] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }
    former = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield usual
    for number, handler in former.items():
        signal.signal(number, handler)


def ended(bench: Bench, *codes: int | None) -> Any:
    watch = bench.watch()
    watch.process.poll = iter(codes).__next__
    return watch


def test_handlers_are_those_of_before_once_mpirun_has_ended_and_what_was_ignored_stays_so(
    bench: Bench, handlers: dict[int, Any]
) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    watch = ended(bench, None, None, 0, 0)
    meanwhile: list[Any] = []

    def look() -> None:
        meanwhile.append([signal.getsignal(number) for number in handlers])

    bench.on_listen = look
    watch.to_end()
    assert [[handler == watch._on_signal for handler in seen] for seen in meanwhile] == [[True, True, False]] * 2
    assert [signal.getsignal(number) for number in handlers] == [
        handlers[signal.SIGINT],
        handlers[signal.SIGTERM],
        signal.SIG_IGN,
    ]
    # All of its group is killed, which may have outlived it; its children are nobody's by then.
    assert (bench.told, bench.killed_children, watch.over_at) == (["killed"], [], bench.now)
    assert (watch.ended_at, watch.signal_number, watch.timed_out) == (float("inf"), None, False)


def test_an_mpirun_whose_watch_fails_is_killed_with_its_children(bench: Bench, handlers: dict[int, Any]) -> None:
    def fail() -> None:
        raise KeyError("odd")

    bench.on_listen = fail
    watch = bench.watch()
    with pytest.raises(KeyError, match="odd"):
        watch.to_end()
    assert (bench.told, bench.killed_children, watch.over_at) == (["killed"], [PID], float("inf"))
    assert [signal.getsignal(number) for number in handlers] == list(handlers.values())


def test_a_group_that_is_gone_already_is_no_error(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(process: int, number: int) -> None:
        raise ProcessLookupError

    monkeypatch.setattr(module.os, "killpg", gone)
    watch = ended(bench, 0, 0)
    watch.to_end()
    assert watch.over_at == 1000.0


def test_a_failure_that_came_to_the_disk_alone_ends_the_job_two_seconds_after_it_is_seen(bench: Bench) -> None:
    bench.all_call()
    watch = bench.watch()
    bench.heard(watch, (0.0, []))
    bench.folders[2].path.mkdir()
    bench.folders[2].failure.write_text(json.dumps({}))
    # It looks into the folders twice a second.
    bench.heard(watch, (0.25, []), (0.5, []), (2.5, []), (2.75, TERM))


def test_a_rank_that_seemed_to_have_died_and_calls_again_in_time_ends_no_job(bench: Bench) -> None:
    bench.all_call()
    watch = bench.watch()
    bench.registry.lose(1)
    bench.heard(watch, (0.0, []), (2.0, []))
    bench.registry.call(1, 1, "elsewhere", 101)
    bench.heard(watch, (0.25, []), (60.0, []))
    # It is watched as before: its death, and a failure that is written down, count from when they are seen.
    bench.registry.lose(1)
    bench.heard(watch, (0.0, []), (2.0, []))
    bench.registry.call(1, 1, "elsewhere", 101)
    bench.folders[1].path.mkdir()
    bench.folders[1].failure.write_text(json.dumps({}))
    bench.heard(watch, (0.0, []), (0.25, TERM))


def complete(bench: Bench, *ranks: int) -> None:
    for rank in ranks:
        bench.registry.hear(rank, "completed", None)


def test_ranks_that_have_completed_and_do_not_leave_are_told_once_their_watchdog_would_bark(bench: Bench) -> None:
    bench.all_call()
    complete(bench, 0, 1, 2, 3)
    watch = bench.watch(watchdog=30.0)
    bench.heard(watch, (0.0, []), (30.0, []), (30.5, TERM))
    assert watch.sentence == (
        "ranks 0-3 have ended their scripts, but their processes have not left within 30 s: MPI does not finalize"
    )


def test_an_mpirun_that_is_stopped_by_its_user_holds_up_its_ranks_which_are_not_blamed(bench: Bench) -> None:
    bench.all_call()
    complete(bench, 0, 1, 2, 3)
    bench.state = "stopped"
    watch = bench.watch(watchdog=3.0)
    bench.heard(watch, (0.0, []), (15.0, []), (15.25, TERM))
    assert watch.sentence is None


@pytest.mark.parametrize(("starter", "is_held_up"), [(77, False), (78, True)])
def test_a_child_of_mpirun_that_is_stopped_holds_up_its_ranks_unless_it_is_one_of_them(
    starter: int, is_held_up: bool, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.all_call()
    for entry in bench.registry:
        entry.host, entry.starter = module.socket.gethostname(), starter
    complete(bench, 0, 1, 2, 3)
    monkeypatch.setattr(module, "children_of", lambda process: [77])
    monkeypatch.setattr(module, "state_of", lambda process: "stopped" if process == 77 else "")
    watch = bench.watch(watchdog=3.0)
    bench.heard(watch, (0.0, []), (3.25, [] if is_held_up else TERM))
    assert (watch.sentence is None) == is_held_up


def test_where_a_rank_died_and_the_others_are_over_mpirun_has_two_seconds(bench: Bench) -> None:
    bench.all_call()
    bench.registry.entries[1].lost_at = 1000.0
    complete(bench, 0, 2, 3)
    bench.heard(bench.watch(survives_deaths=True), (0.0, []), (2.0, []), (2.25, TERM))


def test_time_begins_anew_when_the_last_of_them_has_left(bench: Bench) -> None:
    bench.all_call()
    complete(bench, 0, 1, 2, 3)
    watch = bench.watch()
    bench.heard(watch, (0.0, []))
    bench.now = 1010.0
    for entry in bench.registry:
        entry.lost_at = 1010.0
    bench.heard(watch, (0.0, []), (15.0, []), (15.25, TERM))


@pytest.mark.parametrize(("ended_ranks", "is_asked"), [((), False), ((0,), True), ((0, 1, 2, 3), False)])
def test_who_waits_for_ever_is_asked_once_some_ranks_have_ended(
    ended_ranks: tuple[int, ...], is_asked: bool, bench: Bench
) -> None:
    asked: list[str] = []
    bench.all_call()
    complete(bench, *ended_ranks)
    watch = bench.watch()
    hangs: Any = watch._hangs
    hangs.look = lambda: asked.append("looked")
    watch._look()
    assert asked == ["looked"] * is_asked


def test_a_job_that_is_ending_is_not_told_again(bench: Bench) -> None:
    bench.all_call()
    bench.registry.entries[2].lost_at = 1000.0
    watch = bench.watch()
    bench.heard(watch, (0.0, []), (2.25, TERM), (2.5, []), (3.25, []), (3.5, ["killed"]))
    assert watch.ended_at == 1002.25


def test_the_last_line_of_a_rank_is_shown_also_without_its_end(logged: Bench) -> None:
    watch = logged.watch(shown=OutputSelection((1,), True))
    watch.process.poll = iter([None, 0, 0]).__next__
    logged.on_listen = lambda: logged.folders[1].log.write_text("first\nlast")
    watch.to_end()
    assert b"".join(logged.shown) == b"[1] first\n[1] last\n"


def test_shared_memory_is_noted_of_ranks_that_live_on_this_host(bench: Bench) -> None:
    bench.all_call()
    for rank, host in ((0, "elsewhere"), (1, module.socket.gethostname()), (2, module.socket.gethostname())):
        bench.registry.entries[rank].host = host
    bench.registry.hear(2, "completed", None)
    bench.registry.entries[3].host, bench.registry.entries[3].pid = module.socket.gethostname(), None
    noted: list[int] = []
    watch = bench.watch()
    segments: Any = watch.segments
    segments.note = noted.extend
    watch._look()
    assert noted == [101]
