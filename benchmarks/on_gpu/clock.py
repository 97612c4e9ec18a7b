"""Seconds of a call on a device: by events of its stream where it has one, else by the clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol


class Event(Protocol):
    """A place in a stream, as CuPy and PyTorch have it."""

    def record(self) -> Any:
        """Put it into the current stream."""

    def synchronize(self) -> Any:
        """Wait until the device has come to it."""


@dataclass(frozen=True)
class Stream:
    """What is asked of a device's stream; ``keep_busy`` gives it some milliseconds of work."""

    make_event: Callable[[], Event]
    milliseconds_between: Callable[[Event, Event], float]
    keep_busy: Callable[[], object]


def median_seconds(
    call: Callable[[], object],
    count: int,
    stream: Stream | None,
    is_long: bool = False,
) -> float:
    """Return the median seconds of ``count`` calls, after a fifth as many that are not timed.

    Without a stream the calls compute before they return. Where a call is not long, the device is kept busy while the
    host hands over all of them, so that it does not wait for the host between two events.
    """
    for _ in range(_warming(count)):
        call()
    if stream is None:
        return median(_by_clock(call) for _ in range(count))
    events = [(stream.make_event(), stream.make_event()) for _ in range(count)]
    if not is_long:
        stream.keep_busy()
    for first, last in events:
        first.record()
        call()
        last.record()
    events[-1][1].synchronize()
    return median(stream.milliseconds_between(first, last) for first, last in events) / 1e3


def _warming(count: int) -> int:
    return max(count // 5, 1)


def _by_clock(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def turns(calls: list[Callable[[], object]]) -> Callable[[], object]:
    """Return what makes one of the calls after another: their arrays together do not fit into the device's caches."""
    place = -1

    def call() -> object:
        nonlocal place
        place = (place + 1) % len(calls)
        return calls[place]()

    return call


def sets_beyond_caches(byte_count: int, count: int) -> int:
    """Return how many sets of arrays of so many bytes are more than 200 MB, the caches of a GPU several times over.

    They are no more than the calls that take the median of ``count``: each then has a set of its own.
    """
    return max(1, min(64, count + _warming(count), -(-200_000_000 // max(byte_count, 1))))
