"""Where the thread ranks of one process wait for each other, and learn when one of them has ended."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from numpy.typing import NDArray

from mpiparallel.errors import CommunicationError

FINISHED: Final = "has already ended"
"""How a rank has ended that has not failed."""


class MemberCall(NamedTuple):
    """One collective as one member calls it: what all members must agree on, what is wrong with it, and its data."""

    signature: tuple[object, ...]
    problem: str | None
    payload: Any


class Letter:
    """One end of a message between two threads: the array that is sent, or the one that is filled."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        self.has_ended = False
        self.problem: str | None = None


class RankCondition:
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


class Rendezvous(RankCondition):
    """The rendezvous of one group: a barrier, and one slot a member for the call it makes.

    ``settled`` is what the last member to come has found: what is wrong with the calls, or what they give.
    """

    def __init__(self, ranks: tuple[int, ...], ended: dict[int, str], waits: dict[int, str]) -> None:
        super().__init__(ended, waits)
        self.ranks = ranks
        self.calls: list[MemberCall | None] = [None] * len(ranks)
        self.settled: tuple[str | None, Any] = None, None
        self._arrived = 0
        self._generation = 0

    def wait(self, rank: int, activity: str, settle: Callable[[], None] | None = None) -> None:
        """Wait, as world rank ``rank``, until every member waits; the last to come calls ``settle`` first."""
        with self.condition:
            generation = self._generation
            self._arrived += 1
            if self._arrived == len(self.ranks):
                if settle is not None:
                    settle()
                self._arrived = 0
                self._generation += 1
                self.condition.notify_all()
                return
            while self._generation == generation:
                self.sleep(rank, activity, self.ranks)


class Mailbox(RankCondition):
    """The messages from one rank to another under one tag: what was sent first fills what was wanted first."""

    def __init__(self, source: int, target: int, ended: dict[int, str], waits: dict[int, str]) -> None:
        super().__init__(ended, waits)
        self._source = source
        self._target = target
        self._sent: deque[Letter] = deque()
        self._wanted: deque[Letter] = deque()

    def send(self, array: NDArray[Any]) -> Letter:
        """Offer an array, and return at once."""
        return self._put(self._sent, array)

    def want(self, array: NDArray[Any]) -> Letter:
        """Have an array filled by what is sent, and return at once."""
        return self._put(self._wanted, array)

    def wait_sent(self, letter: Letter) -> str | None:
        """Wait until what was sent has been received, and return what was wrong with it."""
        return self._wait(letter, self._source, f"send to rank {self._target}", self._target)

    def wait_received(self, letter: Letter) -> str | None:
        """Wait until what was wanted has been sent, and return what was wrong with it."""
        return self._wait(letter, self._target, f"receive from rank {self._source}", self._source)

    def take_back(self, letter: Letter) -> None:
        """Forget what was sent or wanted, unless it has been passed on."""
        with self.condition:
            for letters in (self._sent, self._wanted):
                if letter in letters:
                    letters.remove(letter)

    def _put(self, letters: deque[Letter], array: NDArray[Any]) -> Letter:
        letter = Letter(array)
        with self.condition:
            letters.append(letter)
            if self._sent and self._wanted:
                self._pass_on(self._sent.popleft(), self._wanted.popleft())
            self.condition.notify_all()
        return letter

    def _pass_on(self, sent: Letter, wanted: Letter) -> None:
        source, target = sent.array, wanted.array
        if source.dtype == target.dtype and source.size == target.size:
            target[:] = source
        else:
            sent.problem = wanted.problem = (
                f"rank {self._source} sends {source.size} elements of {source.dtype} "
                f"where rank {self._target} receives {target.size} of {target.dtype}"
            )
        sent.has_ended = wanted.has_ended = True

    def _wait(self, letter: Letter, rank: int, activity: str, peer: int) -> str | None:
        with self.condition:
            while not letter.has_ended:
                self.sleep(rank, activity, (peer,))
        return letter.problem


class ThreadWorld:
    """What the thread ranks of one world share; ``hosts`` gives each rank the number of a host, by default one."""

    def __init__(self, size: int, overlaps: bool = False, hosts: Sequence[int] | None = None) -> None:
        self.size = size
        self.overlaps = overlaps
        numbers = list(hosts or [0] * size)
        self.hosts = tuple(numbers.index(number) for number in numbers)
        self._waits: dict[int, str] = {}
        self._ended: dict[int, str] = {}
        self._lock = threading.Lock()
        self._rendezvous_points: dict[tuple[int, ...], Rendezvous] = {}
        self._mailboxes: dict[tuple[int, int, tuple[int, ...], int], Mailbox] = {}
        self._outer: ThreadWorld | None = None
        self._inner: list[InnerWorld] = []
        self._left: set[int] = set()

    def rendezvous(self, ranks: tuple[int, ...]) -> Rendezvous:
        """Return the rendezvous of a group of world ranks."""
        with self._lock:
            if ranks not in self._rendezvous_points:
                self._rendezvous_points[ranks] = Rendezvous(ranks, self._ended, self._waits)
            return self._rendezvous_points[ranks]

    def mailbox(self, source: int, target: int, ranks: tuple[int, ...], tag: int) -> Mailbox:
        """Return the mailbox between two world ranks within a group."""
        key = (source, target, ranks, tag)
        with self._lock:
            if key not in self._mailboxes:
                self._mailboxes[key] = Mailbox(source, target, self._ended, self._waits)
            return self._mailboxes[key]

    def inner(self, ranks: tuple[int, ...], rank: int) -> ThreadWorld:
        """Return the world in which place ``i`` is ``ranks[i]``; its n-th, where ``rank`` asks for the n-th time."""
        with self._lock:
            for inner in self._inner:
                if inner.ranks == ranks and rank not in inner.entered:
                    break
            else:
                world = ThreadWorld(len(ranks), self.overlaps, [self.hosts[place] for place in ranks])
                world._ended.update((ranks.index(place), how) for place, how in self._ended.items() if place in ranks)
                world._outer = self
                inner = InnerWorld(ranks, world, set())
                self._inner.append(inner)
            inner.entered.add(rank)
        return inner.world

    def leave(self, rank: int) -> None:
        """Note that ``rank`` has freed this world; the one it lies in forgets it when all have."""
        self._left.add(rank)
        if self._outer is not None and len(self._left) == self.size:
            self._outer._forget(self)

    def _forget(self, inner: ThreadWorld) -> None:
        with self._lock:
            self._inner = [known for known in self._inner if known.world is not inner]

    def check(self, rank: int, needed: tuple[int, ...]) -> None:
        """Raise CommunicationError where one of those that ``rank`` needs has failed; who has ended needs nobody."""
        with self._lock:
            failed = {other: how for other, how in self._ended.items() if other in needed and how != FINISHED}
        for other, how in failed.items():
            raise CommunicationError(f"rank {rank} waits for its device and for rank {other}, which {how}")

    def activity(self, rank: int) -> str | None:
        """Say what ``rank`` waits in, in this world or in one inside it; None where it does not wait."""
        with self._lock:
            inner = [(world, ranks.index(rank)) for ranks, world, _ in self._inner if rank in ranks]
        activities = [self._waits.get(rank), *(world.activity(place) for world, place in inner)]
        return next((activity for activity in activities if activity), None)

    def end(self, rank: int, how: str) -> None:
        """Tell everyone who waits for ``rank`` that it will not come."""
        with self._lock:
            self._ended.setdefault(rank, how)
            waitings: list[RankCondition] = [*self._rendezvous_points.values(), *self._mailboxes.values()]
            inner = [(world, ranks.index(rank)) for ranks, world, _ in self._inner if rank in ranks]
        for waiting in waitings:
            waiting.wake()
        for world, place in inner:
            world.end(place, how)


class InnerWorld(NamedTuple):
    """A world made of ranks of another one; ``entered`` are those that have come in."""

    ranks: tuple[int, ...]
    world: ThreadWorld
    entered: set[int]
