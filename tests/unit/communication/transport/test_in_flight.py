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
