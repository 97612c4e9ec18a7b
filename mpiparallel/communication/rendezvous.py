"""Where the thread ranks of one process wait for each other, and learn when one of them has ended."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, NamedTuple

from numpy.typing import NDArray

from mpiparallel.errors import CommunicationError


class Call(NamedTuple):
    """One collective as one member calls it: what all members must agree on, what is wrong with it, and its data."""

    signature: tuple[object, ...]
    problem: str | None
    payload: Any


class Letter:
    """An array on its way from one thread to another."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        self.is_taken = False
        self.problem: str | None = None


class Waiting:
    """A condition on which thread ranks wait, and which ends in an error when a rank they need has ended."""

    def __init__(self, ended: dict[int, str], waits: dict[int, str]) -> None:
        self.condition = threading.Condition()
        self._ended = ended
        self._waits = waits

    def sleep(self, rank: int, activity: str, needed: tuple[int, ...]) -> None:
        """Wait for one notification, as world rank ``rank``; call it with the condition held."""
        for other in needed:
            if other in self._ended:
                how = self._ended[other]
                raise CommunicationError(f"rank {rank} waits in {activity} for rank {other}, which {how}")
        self._waits[rank] = activity
        self.condition.wait()
        del self._waits[rank]

    def wake(self) -> None:
        """Let all who wait look again."""
        with self.condition:
            self.condition.notify_all()


class Meeting(Waiting):
    """The meeting point of one group: a barrier, and one slot a member for the call it makes."""

    def __init__(self, ranks: tuple[int, ...], ended: dict[int, str], waits: dict[int, str]) -> None:
        super().__init__(ended, waits)
        self.ranks = ranks
        self.calls: list[Call | None] = [None] * len(ranks)
        self._arrived = 0
        self._generation = 0

    def wait(self, rank: int, activity: str) -> None:
        """Wait, as world rank ``rank``, until every member waits."""
        with self.condition:
            generation = self._generation
            self._arrived += 1
            if self._arrived == len(self.ranks):
                self._arrived = 0
                self._generation += 1
                self.condition.notify_all()
                return
            while self._generation == generation:
                self.sleep(rank, activity, self.ranks)


class Mailbox(Waiting):
    """The letters from one rank to another under one tag, in the order they were sent."""

    def __init__(self, source: int, target: int, ended: dict[int, str], waits: dict[int, str]) -> None:
        super().__init__(ended, waits)
        self._source = source
        self._target = target
        self._letters: deque[Letter] = deque()

    def deliver(self, array: NDArray[Any]) -> str | None:
        """Offer an array, wait until it is taken, and return what was wrong with it."""
        letter = Letter(array)
        with self.condition:
            self._letters.append(letter)
            self.condition.notify_all()
            while not letter.is_taken:
                self.sleep(self._source, f"send to rank {self._target}", (self._target,))
        return letter.problem

    def collect(self, array: NDArray[Any]) -> str | None:
        """Wait for an array, copy it into ``array``, and return what was wrong with it."""
        with self.condition:
            while not self._letters:
                self.sleep(self._target, f"receive from rank {self._source}", (self._source,))
            letter = self._letters.popleft()
            sent = letter.array
            if sent.dtype == array.dtype and sent.size == array.size:
                array[:] = sent
            else:
                letter.problem = (
                    f"rank {self._source} sends {sent.size} elements of {sent.dtype} "
                    f"where rank {self._target} receives {array.size} of {array.dtype}"
                )
            letter.is_taken = True
            self.condition.notify_all()
        return letter.problem


class ThreadWorld:
    """What the thread ranks of one world share."""

    def __init__(self, size: int, overlaps: bool = False) -> None:
        self.size = size
        self.overlaps = overlaps
        self.waits: dict[int, str] = {}
        self._ended: dict[int, str] = {}
        self._lock = threading.Lock()
        self._meetings: dict[tuple[int, ...], Meeting] = {}
        self._mailboxes: dict[tuple[int, int, tuple[int, ...], int], Mailbox] = {}

    def meeting(self, ranks: tuple[int, ...]) -> Meeting:
        """Return the meeting point of a group of world ranks."""
        with self._lock:
            if ranks not in self._meetings:
                self._meetings[ranks] = Meeting(ranks, self._ended, self.waits)
            return self._meetings[ranks]

    def mailbox(self, source: int, target: int, ranks: tuple[int, ...], tag: int) -> Mailbox:
        """Return the mailbox between two world ranks within a group."""
        key = (source, target, ranks, tag)
        with self._lock:
            if key not in self._mailboxes:
                self._mailboxes[key] = Mailbox(source, target, self._ended, self.waits)
            return self._mailboxes[key]

    def end(self, rank: int, how: str) -> None:
        """Tell everyone who waits for ``rank`` that it will not come."""
        self._ended.setdefault(rank, how)
        with self._lock:
            waitings: list[Waiting] = [*self._meetings.values(), *self._mailboxes.values()]
        for waiting in waitings:
            waiting.wake()
