"""Calls that the device is carrying out while the host goes on: watched wherever the host waits for the device.

A device that waits for a rank that has died waits for ever, and with it the host that waits for the device. So before
the host does, it looks at each call in turn. It asks whether the call has ended, whether a member has died, and whether
NCCL reports an error. After a death or an error everything that is under way is aborted, and the error is raised.

Calls of a graph are given by its launch. They are written down by the host before each launch, one entry each, and are
watched together until the graph has ended.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol

from mpiparallel.backend.gpu.wait import watch_device
from mpiparallel.communication.protocol import NotedCall

_LOOKS: Final = 200
_NAP: Final = 2e-4
_MOST: Final = 256


class WatchedGroup(Protocol):
    """What carries calls out on the device."""

    def check(self) -> None:
        """Raise what keeps its calls from ending."""

    def abandon(self) -> None:
        """End what is under way."""


class GraphCall(Protocol):
    """A call that a graph has in it."""

    @property
    def group(self) -> WatchedGroup:
        """What carries it out."""

    @property
    def words(self) -> tuple[Any, ...]:
        """What is called, with how many elements, as it is written down."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """Who calls it, by world ranks."""

    def noted(self) -> NotedCall:
        """Write it down."""


class _Call(NamedTuple):
    group: WatchedGroup
    call: NotedCall
    done: Any


class InFlight:
    """The calls of this rank that are under way, in their order, and the groups that carry them out."""

    def __init__(self) -> None:
        self._calls: deque[_Call] = deque()
        self._groups: list[WatchedGroup] = []
        self.recorded: list[GraphCall] | None = None
        watch_device(self.settle)

    def watch(self, group: WatchedGroup) -> None:
        """Take a group in."""
        self._groups.append(group)

    def forget(self, group: WatchedGroup) -> None:
        """Let a group go."""
        self._groups = [one for one in self._groups if one is not group]
        self._calls = deque(one for one in self._calls if one.group is not group)

    def add(self, group: WatchedGroup, call: NotedCall, done: Any) -> None:
        """Watch a call until its event comes."""
        call.going_on()
        self._calls.append(_Call(group, call, done))
        self._take_ended()
        if len(self._calls) > _MOST:
            # A host that runs ahead for long has nobody who looks.
            self._wait(self._calls[0])
            self._take_ended()

    @contextmanager
    def recording(self) -> Iterator[list[GraphCall]]:
        """Let calls be part of a graph: they are noted in a list, and nothing of them is under way."""
        calls = self.recorded = []
        try:
            yield calls
        finally:
            self.recorded = None

    def replay(self, calls: Sequence[GraphCall], launch: Callable[[], object], record: Callable[[], Any]) -> None:
        """Write the calls of a graph down, launch it, and watch them until the event of ``record`` comes."""
        noted: list[NotedCall] = []
        try:
            for one in calls:
                noted.append(one.noted())
                noted[-1].going_on()
            launch()
            done = record()
        except BaseException:
            for call in noted:
                with call.resumed():
                    pass
            raise
        for one, call in zip(calls, noted, strict=True):
            self.add(one.group, call, done)

    def is_over(self, group: WatchedGroup) -> bool:
        """Return whether no call of a group is under way."""
        self._take_ended()
        return all(one.group is not group for one in self._calls)

    def settle(self) -> None:
        """Wait until all calls have ended.

        Raises RankFailureError where a member has died, and CommunicationError for what NCCL reports.
        """
        while self._calls:
            self._wait(self._calls[0])
            self._take_ended()

    def abandon(self) -> None:
        """End all that is under way, on this rank alone."""
        calls, self._calls = self._calls, deque()
        groups, self._groups = self._groups, []
        for group in groups:
            group.abandon()
        for one in calls:
            with one.call.resumed():
                pass

    def _take_ended(self) -> None:
        while self._calls and self._calls[0].done.done:
            with self._calls.popleft().call.resumed():
                pass

    def _wait(self, one: _Call) -> None:
        """Wait for a call, known by its name meanwhile, and look after those that it needs."""
        for _ in range(_LOOKS):
            if one.done.done:
                return
            os.sched_yield()
        try:
            with one.call.resumed():
                while not one.done.done:
                    one.group.check()
                    time.sleep(_NAP)
        except BaseException:
            self.abandon()
            raise
