"""Calls that a device carries out are waited for by name, and given up where they cannot end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mpiparallel.backend.gpu.wait import before_waiting, forget_watches
from mpiparallel.communication.transport.in_flight import InFlight
from mpiparallel.errors import RankFailureError


class NotedHere:
    """A call that keeps what would be written down of it."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def __enter__(self) -> NotedHere:
        return self

    def __exit__(self, *error: object) -> None:
        self.written.append("has ended")

    def going_on(self) -> None:
        self.written.append("goes on")

    def resumed(self) -> NotedHere:
        self.written.append("is waited for")
        return self


class LateEvent:
    """An event that comes when it has been looked at so often."""

    def __init__(self, looks: float) -> None:
        self._looks = looks

    @property
    def done(self) -> bool:
        self._looks -= 1
        return self._looks < 0


class WatchedHere:
    def __init__(self, error: Exception | None = None) -> None:
        self._error = error
        self.checks = 0
        self.abandoned = False

    def check(self) -> None:
        self.checks += 1
        if self._error is not None:
            raise self._error

    def abandon(self) -> None:
        self.abandoned = True


@pytest.fixture
def in_flight() -> Iterator[InFlight]:
    yield InFlight()
    forget_watches()


def add(in_flight: InFlight, group: Any, looks: float) -> NotedHere:
    call = NotedHere()
    in_flight.watch(group)
    in_flight.add(group, call, LateEvent(looks))
    return call


def test_a_call_that_takes_long_is_written_down_as_waited_for(in_flight: InFlight) -> None:
    group = WatchedHere()
    call = add(in_flight, group, 220)
    assert call.written == ["goes on"]
    before_waiting()
    assert call.written[-2:] == ["is waited for", "has ended"]
    assert group.checks > 0
    assert in_flight.is_over(group)


def test_calls_that_have_ended_are_taken_note_of_when_the_next_is_given(in_flight: InFlight) -> None:
    group = WatchedHere()
    first = add(in_flight, group, 1)
    assert first.written == ["goes on"]
    second = add(in_flight, group, 0)
    assert (first.written[-1], second.written[-1], group.checks) == ("has ended", "has ended", 0)


def test_a_death_is_raised_before_the_host_waits_and_everything_is_aborted(in_flight: InFlight) -> None:
    dead, other = WatchedHere(RankFailureError("rank 1 has died")), WatchedHere()
    calls = [add(in_flight, group, float("inf")) for group in (dead, other)]
    with pytest.raises(RankFailureError, match="rank 1 has died"):
        before_waiting()
    assert (dead.abandoned, other.abandoned) == (True, True)
    assert all(call.written[-1] == "has ended" for call in calls)
    before_waiting()


def test_a_host_that_runs_far_ahead_is_held_back(in_flight: InFlight) -> None:
    group = WatchedHere()
    calls = [add(in_flight, group, 300) for _ in range(300)]
    assert calls[0].written[-1] == "has ended"
    assert calls[-1].written == ["goes on"]


def test_so_many_calls_may_be_under_way_and_one_more_is_waited_for(in_flight: InFlight) -> None:
    group = WatchedHere(RankFailureError("rank 1 has died"))
    first = add(in_flight, group, float("inf"))
    for _ in range(255):
        add(in_flight, WatchedHere(), 0)
    assert (group.checks, first.written) == (0, ["goes on"])
    with pytest.raises(RankFailureError):
        add(in_flight, WatchedHere(), 0)
    assert group.abandoned


def test_a_call_that_ends_soon_is_waited_for_without_a_look_at_its_members(in_flight: InFlight) -> None:
    group = WatchedHere(RankFailureError("rank 1 has died"))
    call = add(in_flight, group, 100)
    before_waiting()
    assert (group.checks, call.written) == (0, ["goes on", "is waited for", "has ended"])


def test_calls_end_in_the_order_in_which_they_were_given(in_flight: InFlight) -> None:
    group = WatchedHere()
    late, early = add(in_flight, group, 3), add(in_flight, group, 0)
    # The first one has not come, so nobody has looked at the second.
    assert (late.written, early.written) == (["goes on"], ["goes on"])
    assert not in_flight.is_over(group)
    in_flight.settle()
    assert (late.written[-1], early.written[-1]) == ("has ended", "has ended")
    assert in_flight.is_over(group)
    in_flight.settle()


def test_a_group_that_is_let_go_takes_its_calls_along_and_no_others(in_flight: InFlight) -> None:
    gone, other = WatchedHere(), WatchedHere()
    first, second = (add(in_flight, group, float("inf")) for group in (gone, other))
    assert (in_flight.is_over(gone), in_flight.is_over(other)) == (False, False)
    in_flight.forget(gone)
    assert (in_flight.is_over(gone), in_flight.is_over(other)) == (True, False)
    in_flight.abandon()
    assert (gone.abandoned, other.abandoned) == (False, True)
    assert (first.written, second.written[-1]) == (["goes on"], "has ended")
    assert in_flight.is_over(other)
    other.abandoned = False
    in_flight.abandon()
    assert not other.abandoned


class CallOfGraph:
    """A call that a graph has in it."""

    words, ranks = ("all_reduce",), (0, 1)

    def __init__(self, group: Any, error: Exception | None = None) -> None:
        self.group = group
        self.made: list[NotedHere] = []
        self._error = error

    def noted(self) -> NotedHere:
        if self._error is not None:
            raise self._error
        self.made.append(NotedHere())
        return self.made[-1]


def test_calls_are_part_of_a_graph_while_it_is_recorded_and_no_longer(in_flight: InFlight) -> None:
    assert in_flight.recorded is None
    with in_flight.recording() as calls:
        assert in_flight.recorded is calls
        assert calls == []
    assert in_flight.recorded is None
    with pytest.raises(KeyError), in_flight.recording():
        raise KeyError
    assert in_flight.recorded is None


def test_the_calls_of_a_graph_are_written_down_before_its_launch_and_watched_after_it(in_flight: InFlight) -> None:
    group = WatchedHere()
    calls: list[Any] = [CallOfGraph(group), CallOfGraph(group)]
    told: list[Any] = []

    def launch() -> None:
        told.append([call.made[0].written for call in calls])

    in_flight.watch(group)
    in_flight.replay(calls, launch, lambda: LateEvent(2))
    assert [[written[0] for written in one] for one in told] == [["goes on", "goes on"]]
    in_flight.settle()
    assert all(call.made[0].written[-1] == "has ended" for call in calls)
    assert all(len(call.made) == 1 for call in calls)


@pytest.mark.parametrize("fails", ["launch", "record", "second call"])
def test_where_a_graph_cannot_be_launched_its_calls_have_ended(in_flight: InFlight, fails: str) -> None:
    def failing(what: str) -> None:
        if what == fails:
            raise OSError(what)

    group = WatchedHere()
    calls: list[Any] = [
        CallOfGraph(group),
        CallOfGraph(group, OSError("second call") if fails == "second call" else None),
    ]
    with pytest.raises(OSError, match=f"^{fails}$"):
        in_flight.replay(calls, lambda: failing("launch"), lambda: failing("record"))
    assert all(noted.written == ["goes on", "is waited for", "has ended"] for call in calls for noted in call.made)
    assert len(calls[0].made) == 1
    assert in_flight.is_over(group)
