"""A device's streams without the device: who waits for whom, what is recorded for later, what the host has to wait for.

Calls compute at once. What a real device could do in another order is found by clocks: each stream counts its calls,
and knows up to which call of the others it has waited.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

Bounds = tuple[int, int]


class OverwrittenError(AssertionError):
    """Host memory that was written to while the device was still copying from it."""


class MissingEventError(AssertionError):
    """Memory that two streams use, of which neither waits for the other."""


class CapturedError(AssertionError):
    """What a graph must not have in it: what the host waits for, or memory that others get when the graph has run."""


@dataclass(frozen=True)
class Call:
    """Something that a stream does: ``shown`` is what is called, with its arguments as they were given."""

    stream: HiddenStream
    run: Callable[[], object]
    shown: tuple[Any, ...]


@dataclass(eq=False)
class HiddenEvent:
    """A point in a stream, by what was known there of all streams."""

    device: Device
    known: dict[HiddenStream, int] = field(default_factory=dict)
    transfers: list[Transfer] = field(default_factory=list)
    captured_on: HiddenStream | None = None

    @property
    def done(self) -> bool:
        """Whether the device has come there; asking waits for nobody."""
        self.device.must_not_capture("the host asks whether an event has come")
        if self.device.fault or not all(one.has_ended() for one in self.transfers):
            return False
        self.device.host_knows(self.known)
        return True

    def synchronize(self) -> None:
        """Let the host wait: whatever is given to any stream from now on comes later."""
        self.device.must_not_capture("the host waits for an event")
        for one in self.transfers:
            one.end()
        self.device.host_knows(self.known)


class Transfer(Protocol):
    """What a stream does together with other devices, which come when they come."""

    def has_ended(self) -> bool:
        """Return whether it has, without waiting."""

    def end(self) -> None:
        """Wait for the others; a device waits for ever for one that has died, so its result then never comes."""


class VisibleMemory(Protocol):
    """Memory of the device that other processes see, as it is when the device has written."""

    memory: np.ndarray[Any, Any]

    def show(self) -> None:
        """Let them see what it holds."""


class HiddenStream:
    """A stream of one host thread's device."""

    def __init__(self, device: Device | None = None, non_blocking: bool = False) -> None:
        self.device = device or DEVICE
        self.now = 0
        self.seen: dict[HiddenStream, int] = {}
        self.used: dict[tuple[Bounds, bool], int] = {}  # in the order of the clock
        self.is_legacy = not non_blocking
        self.transfers: list[Transfer] = []
        self.ptr = id(self)

    def __enter__(self) -> HiddenStream:
        self.device.left.append(self.device.current)
        self.device.current = self
        return self

    def __exit__(self, *error: object) -> None:
        self.device.current = self.device.left.pop()

    def use(self) -> HiddenStream:
        """Take all work that is given to no other stream."""
        self.device.current = self
        return self

    def record(self, event: HiddenEvent | None = None) -> HiddenEvent:
        """Return where the stream is now."""
        made = event or HiddenEvent(self.device)

        def come() -> None:
            self.transfers = [one for one in self.transfers if not one.has_ended()]
            made.transfers = [*self.transfers]
            made.known.update(self._known())

        if self.device.branches is not None and self in self.device.branches:
            made.captured_on = self
            self.device.ends[id(made)] = self.device.branches[self]
        self.device.give(self, come, ("record",))
        return made

    def wait_event(self, event: HiddenEvent) -> None:
        """Wait for another stream; in a capture one that waits for a stream of it becomes part of it."""
        self.device.joins(self, event)

        def wait() -> None:
            for one in event.transfers:
                one.end()
            self.learn(event.known)

        self.device.give(self, wait, ("wait",))

    def learn(self, known: dict[HiddenStream, int]) -> None:
        """Take note of what another stream has come to."""
        for stream, clock in known.items():
            self.seen[stream] = max(self.seen.get(stream, 0), clock)

    def _known(self) -> dict[HiddenStream, int]:
        return {**self.seen, self: self.now}

    def synchronize(self) -> None:
        """Let the host wait, and look whether what was copied is as it was."""
        self.device.must_not_capture("the host waits for a stream")
        self.device.waits += 1
        self.settle()
        self.device.host_knows(self._known())

    def settle(self) -> None:
        """Do what was begun with other devices."""
        ended, self.transfers = self.transfers, []
        for one in ended:
            one.end()

    def begin_capture(self, mode: Any = None) -> None:
        """Record from now on, and do nothing."""
        if self.is_legacy:
            raise CapturedError("the null stream cannot be captured")
        self.device.recorded = []
        self.device.branches, self.device.ends = {self: 0}, {}

    def end_capture(self) -> HiddenGraph:
        """Return what was recorded."""
        calls, self.device.recorded = self.device.recorded or [], None
        branches, self.device.branches = self.device.branches or {}, None
        if any(count for stream, count in branches.items() if stream is not self):
            raise CapturedError("a stream that a capture has taken in was not waited for: CUDA ends the capture")
        return HiddenGraph(calls)

    def uses(self, arrays: Sequence[np.ndarray[Any, Any]], written: Sequence[np.ndarray[Any, Any]]) -> None:
        """Count a call; raise MissingEventError where another stream may be using its memory."""
        self.settle()
        self.now += 1
        ranges = [(bounds(one), any(one is each for each in written)) for one in arrays if one.size]
        for other in self.device.streams():
            if other is not self and other.used:
                self._compare(other, ranges)
        for one in ranges:
            self.used.pop(one, None)
            self.used[one] = self.now

    def used_since(self, clock: int) -> Iterator[tuple[Bounds, bool]]:
        """Yield where calls after ``clock`` have read, or written (True), the last one first."""
        for used, when in reversed(self.used.items()):
            if when <= clock:
                return
            yield used

    def _compare(self, other: HiddenStream, ranges: Sequence[tuple[Bounds, bool]]) -> None:
        for (start, stop), was_written in other.used_since(self.seen.get(other, 0)):
            for (first, last), is_written in ranges:
                if first < stop and start < last and (was_written or is_written):
                    raise MissingEventError("two streams use the same memory, and neither waits for the other")


@dataclass
class HiddenGraph:
    """Calls that were recorded, done again in their order with the memory as it is then."""

    calls: list[Call]

    def launch(self, stream: HiddenStream) -> None:
        """Do them all."""
        stream.device.must_not_capture("a graph is launched")
        stream.device.graphs += 1
        for call in self.calls:
            call.run()


class Device(threading.local):
    """What one host thread has given its device to do, and counts of it."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all streams, and count from 0."""
        self.current = HiddenStream(self)
        self.left: list[HiddenStream] = []
        self.recorded: list[Call] | None = None
        self.branches: dict[HiddenStream, int] | None = None
        self.ends: dict[int, int] = {}
        self.allocator: Callable[[int], Any] | None = None
        self.room = 1 << 40
        self.fault = 0
        self.waits = self.reads = self.copies = self.graphs = self.launches = 0
        self._begun: list[tuple[HiddenStream, int, Any, Any]] = []
        self._landing: list[tuple[HiddenStream, int, Any, Any]] = []
        self._streams: list[HiddenStream] = [self.current]
        self.shown: list[VisibleMemory] = []

    def stream(self, non_blocking: bool = False) -> HiddenStream:
        """Return a new stream."""
        made = HiddenStream(self, non_blocking)
        self._streams.append(made)
        return made

    def streams(self) -> list[HiddenStream]:
        """Return all streams that there have been."""
        return self._streams

    def give(self, stream: HiddenStream, run: Callable[[], object], shown: tuple[Any, ...]) -> Any:
        """Do something now, or record it."""
        if self.recorded is None:
            return run()
        if self.branches is not None and stream not in self.branches:
            raise CapturedError("work for a stream that is no part of the capture, and would be done at once")
        if self.branches is not None and shown[0] not in ("record", "wait"):
            self.branches[stream] += 1
        self.recorded.append(Call(stream, run, shown))
        return None

    def joins(self, stream: HiddenStream, event: HiddenEvent) -> None:
        """Take a stream into a capture, or note that one of its streams has been waited for."""
        if self.branches is None:
            return
        origin = event.captured_on
        if origin is None or origin not in self.branches:
            raise CapturedError("a wait for what happens outside of the capture: CUDA isolates the two")
        self.branches.setdefault(stream, 0)
        if self.ends.get(id(event)) == self.branches[origin] and origin is not next(iter(self.branches)):
            self.branches[origin] = 0

    def perform(
        self,
        run: Callable[[], Any],
        arrays: Sequence[np.ndarray[Any, Any]],
        written: Sequence[np.ndarray[Any, Any]],
        shown: tuple[Any, ...],
    ) -> Any:
        """Let the current stream compute; what is returned, if anything, is new memory or a view."""
        stream = self.current
        if self.recorded is not None and not written:
            with np.errstate(all="ignore"):
                found = run()
            self._check_memory(found, arrays)
            return found

        def compute() -> Any:
            stream.uses(arrays, written)
            self.launches += 1
            # A device says nothing of infinities.
            with np.errstate(all="ignore"):
                return run()

        if self.recorded is not None:
            return self.give(stream, compute, shown)
        found = run() if not written else compute()
        if not written and not _is_view(found, arrays):
            stream.uses(arrays, ())
            self.launches += 1
        return found

    def _check_memory(self, found: Any, arrays: Sequence[Any]) -> None:
        for one in found if isinstance(found, (list, tuple)) else [found]:
            if isinstance(one, (np.ndarray, np.generic)) and not _is_view(one, arrays):
                self.allocate(one.nbytes)

    def find_room(self, byte_count: int) -> None:
        """Refuse memory that the device has not."""
        if byte_count > self.room:
            raise MemoryError(f"Out of memory allocating {byte_count} bytes")

    def allocate(self, byte_count: int) -> None:
        """Ask the allocator that is in use; without one, memory of a graph would go back to the pool."""
        if self.allocator is not None:
            self.allocator(byte_count)
        if self.recorded is not None:
            raise CapturedError(f"{byte_count} bytes are allocated in a graph: the pool gives them to others as well")

    def must_not_capture(self, what: str) -> None:
        """Raise CapturedError while calls are recorded."""
        if self.recorded is not None:
            raise CapturedError(f"{what} while calls are recorded: CUDA ends the capture")

    def copies_from(self, source: Any) -> None:
        """Remember a copy that may still be going on."""
        self._begun.append((self.current, self.current.now, source, source.copy()))

    def copies_to(self, target: Any, given: Any) -> None:
        """Begin a copy to the host's memory, which holds anything until the host has waited."""
        for begun in [one for one in self._begun if one[0] is self.current and np.may_share_memory(one[2], target)]:
            # The stream is through with that one before it begins this one.
            self._begun.remove(begun)
            _check_unchanged(begun[2], begun[3])
        target.reshape(-1).view(np.uint8)[...] = 0xCB
        self._landing.append((self.current, self.current.now, target, given))

    def host_knows(self, known: dict[HiddenStream, int]) -> None:
        """Let all that is given from now on come after what the host has waited for."""
        for each in self.shown:
            if not self._is_writing(each.memory, known):
                each.show()
        for stream in self._streams:
            stream.learn({one: clock for one, clock in known.items() if one is not stream})
        ended = [one for one in self._begun if one[1] <= known.get(one[0], -1)]
        self._begun = [one for one in self._begun if one[1] > known.get(one[0], -1)]
        for _, _, source, given in ended:
            _check_unchanged(source, given)
        for one in [one for one in self._landing if one[1] <= known.get(one[0], -1)]:
            self._landing.remove(one)
            # A copy that was begun since writes to that memory as well.
            if not any(np.may_share_memory(one[2], other[2]) for other in self._landing):
                one[2][...] = one[3]

    def _is_writing(self, memory: np.ndarray[Any, Any], known: dict[HiddenStream, int]) -> bool:
        """Return whether a stream may be at work in some memory, by what the host has waited for."""
        first, last = bounds(memory)
        return any(
            was_written and first < stop and start < last
            for stream in self._streams
            for (start, stop), was_written in stream.used_since(known.get(stream, 0))
        )


def _check_unchanged(source: Any, given: Any) -> None:
    if source.tobytes() != given.tobytes():
        raise OverwrittenError(f"host memory of shape {source.shape} was overwritten before its copy had ended")


def bounds(array: np.ndarray[Any, Any]) -> Bounds:
    """Return where an array's memory begins and ends."""
    memory = array.__array_interface__
    if memory["strides"] is None:
        return memory["data"][0], memory["data"][0] + array.nbytes
    first, last = np.lib.array_utils.byte_bounds(array)
    return int(first), int(last)


def _is_view(found: Any, arrays: Sequence[Any]) -> bool:
    several = found if isinstance(found, (list, tuple)) else [found]
    return all(not isinstance(one, (np.ndarray, np.generic)) or _shares(one, arrays) for one in several)


def _shares(one: Any, arrays: Sequence[Any]) -> bool:
    """Return whether a result is one of the arrays, or a part of one; what owns its memory is no part."""
    if one.flags.owndata:
        return any(one is each for each in arrays)
    return any(np.may_share_memory(one, each) for each in arrays)


DEVICE = Device()
