"""How long a process waits for its place in a job, whom it listens to, and what it says where there is no job."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.cluster.gathering import meeting_point
from mpiparallel.cluster.gathering.hand_started import HandStarted
from mpiparallel.cluster.rank_table import RankTable
from mpiparallel.communication.gathering import waiting
from mpiparallel.communication.gathering.origin import Origin
from mpiparallel.communication.gathering.waiting import Waiting
from mpiparallel.errors import LaunchError
from tests.conformance.trainings.shell_loop import write_table

OWN = Origin("vm", 7, "/job/device1", 11)
SIBLING = Origin("vm", 8, "/job/device2", 12)
STRANGER = Origin("vm", 9, "/other/device1", 13)


@dataclass
class Clock:
    """Time passes by a second with each look at the sockets; ``planned`` happens at its second."""

    seconds: float = 0.0
    planned: dict[float, Callable[[], object]] = field(default_factory=dict)

    def monotonic(self) -> float:
        return self.seconds

    def select(self, reading: Any, writing: Any, failing: Any, seconds: float) -> Any:
        assert 0 < seconds < 1
        self.seconds += 1
        assert self.seconds < 1000, "nobody gives up"
        self.planned.pop(self.seconds, lambda: None)()
        return select.select(reading, writing, failing, 0)


class Starter:
    """What starts mpirun; it has nothing to say for so many looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def check(self) -> None:
        self.looks -= 1
        if not self.looks:
            raise LaunchError("there is no mpirun")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(waiting, "time", clock)
    monkeypatch.setattr(waiting, "select", clock)
    return clock


@pytest.fixture
def digest() -> str:
    return f"waiting{os.urandom(8).hex()}"


@pytest.fixture
def closed() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def started(digest: str, rank: int, size: int, here: tuple[int, ...]) -> HandStarted:
    return HandStarted(rank, size, here, 30.0, digest)


def calling(digest: str, rank: int, word: str, **fields: Any) -> socket.socket:
    connection = meeting_point.call(digest, rank)
    meeting_point.send(connection, word, **fields)
    return connection


def test_rank_0_tells_those_that_came_which_ones_did_not(digest: str, clock: Clock, closed: ExitStack) -> None:
    here = closed.enter_context(closing(meeting_point.listen(digest, 1)))
    with Waiting(started(digest, 0, 4, (0, 1, 2, 3)), OWN) as one, pytest.raises(LaunchError) as caught:
        one.for_all_here()
    reason = str(caught.value)
    assert "ranks 2, 3 of 4 did not come to rank 0 within 31 s (HCCL_CONNECT_TIMEOUT); start all of them" in reason
    assert "mpiparallel run -n 4 " in reason
    assert "server_id" not in reason
    heard = [meeting_point.receive(closed.enter_context(here.accept()[0])) for _ in range(2)]
    # The first call only asked whose process it is.
    assert heard == [None, meeting_point.GatheringMessage("refusal", {"reason": reason}, ())]


def test_rank_0_goes_on_when_the_last_of_its_host_has_come(digest: str, clock: Clock, closed: ExitStack) -> None:
    def come() -> None:
        closed.enter_context(closing(meeting_point.listen(digest, 2)))

    clock.planned[5] = come
    with Waiting(started(digest, 0, 4, (0, 2)), OWN) as one:
        one.for_all_here()
    assert clock.seconds == 5


@pytest.mark.parametrize(("servers", "is_said"), [(2, True), (1, False)])
def test_a_table_of_several_servers_without_addresses_is_said_to_be_why_ranks_are_missing(
    servers: int, is_said: bool, digest: str, clock: Clock, tmp_path: Path
) -> None:
    path = write_table(tmp_path / "table.json", [(f"10.*.*.{number}", 2 // servers) for number in range(servers)])
    own = replace(started(digest, 0, 2, (0, 1)), table=RankTable.load(path), table_path=path)
    with Waiting(own, OWN) as one, pytest.raises(LaunchError, match="rank 1 of 2 did not come") as caught:
        one.for_all_here()
    assert ("names no hosts, so all ranks are taken to be on this one: write" in str(caught.value)) == is_said


@pytest.mark.parametrize(
    ("here", "led_until", "stand_in_until", "gives_up_at", "words"),
    [
        ((0, 1), 0, 0, 31, "rank 0 of 4 did not come to rank 1 within 31 s"),
        ((0, 1), 100, 0, 102, "rank 0 of 4 did not come to rank 1 within 102 s"),
        ((1,), 0, 0, 91, "rank 0 of 4 did not come to rank 1 within 91 s"),
        ((1, 2), 0, 0, 91, "rank 2 of 4 did not come to rank 1 within 91 s"),
        ((0, 1), 0, 50, 66, "the job has ended before it began; rank 0 says why"),
        ((1,), 0, 50, 51, "the job has ended before it began; rank 0 says why"),
    ],
)
def test_without_rank_0_a_process_gives_up_after_its_time(
    here: tuple[int, ...],
    led_until: float,
    stand_in_until: float,
    gives_up_at: float,
    words: str,
    digest: str,
    clock: Clock,
    closed: ExitStack,
) -> None:
    """30 s, and 60 s more on another host than rank 0's; 2 s after rank 0 has gone, 15 s after the stand-in has."""
    if led_until:
        clock.planned[led_until] = closed.enter_context(closing(meeting_point.listen(digest, 0))).close
    with Waiting(started(digest, 1, 4, here), OWN) as one:
        if stand_in_until:
            clock.planned[stand_in_until] = closed.enter_context(calling(digest, 1, "stand-in")).close
        with pytest.raises(LaunchError, match=words):
            one.for_identity(None)
    assert clock.seconds == gives_up_at


def test_a_stand_in_that_has_come_is_waited_for_however_long(digest: str, clock: Clock, closed: ExitStack) -> None:
    with Waiting(started(digest, 1, 2, (0, 1)), OWN) as one:
        stand_in = closed.enter_context(calling(digest, 1, "stand-in"))
        origin = asdict(SIBLING)
        clock.planned[500] = lambda: meeting_point.send(
            stand_in, "identity", origin=origin, variables={"PMI_RANK": "1"}
        )
        connection, message = one.for_identity(None)
    closed.enter_context(connection)
    assert message.fields["variables"] == {"PMI_RANK": "1"}
    # It stays open when the waiting has ended.
    meeting_point.send(connection, "ended")
    assert meeting_point.receive(stand_in) == meeting_point.GatheringMessage("ended", {}, ())


def test_rank_0_waits_until_what_starts_mpirun_says_that_it_cannot(digest: str, clock: Clock) -> None:
    starter: Any = Starter(500)
    with Waiting(started(digest, 0, 2, (0, 1)), OWN) as one, pytest.raises(LaunchError, match="there is no mpirun"):
        one.for_identity(starter)
    assert clock.seconds == 500


@pytest.mark.parametrize(
    ("word", "fields", "words"),
    [
        ("refusal", {"reason": "ranks 2, 3 did not come"}, "^ranks 2, 3 did not come$"),
        (
            "conflict",
            {"origin": asdict(SIBLING)},
            "rank 1 of this job is claimed by another process, number 12, as well",
        ),
        (
            "identity",
            {"origin": asdict(STRANGER)},
            "rank 0 was started in /other/device1, this process in /job/device1",
        ),
        ("identity", {}, "does not say where it was started"),
        ("conflict", {"origin": {**asdict(SIBLING), "process": "many"}}, "does not say where it was started"),
    ],
)
def test_what_a_caller_says_ends_the_waiting(
    word: str, fields: dict[str, Any], words: str, digest: str, clock: Clock, closed: ExitStack
) -> None:
    with Waiting(started(digest, 1, 4, (0, 1)), OWN) as one:
        closed.enter_context(calling(digest, 1, word, **fields))
        with pytest.raises(LaunchError, match=words):
            one.for_identity(None)


def test_callers_that_leave_and_processes_of_another_job_do_not_end_it(
    digest: str, clock: Clock, closed: ExitStack
) -> None:
    with Waiting(started(digest, 1, 2, (1,)), OWN) as one:
        for at in (2.0, 4.0):
            clock.planned[at] = lambda: meeting_point.call(digest, 1).close()
        closed.enter_context(calling(digest, 1, "conflict", origin=asdict(STRANGER)))
        with pytest.raises(LaunchError, match="within 91 s"):
            one.for_identity(None)


def test_what_a_process_of_another_user_says_is_not_heard(
    digest: str, clock: Clock, closed: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Waiting(started(digest, 1, 2, (1,)), OWN) as one:
        caller = closed.enter_context(calling(digest, 1, "refusal", reason="no"))
        monkeypatch.setattr(meeting_point, "is_own", lambda connection: False)
        with pytest.raises(LaunchError, match="within 91 s"):
            one.for_identity(None)
        assert meeting_point.receive(caller) is None


def test_the_second_that_claims_a_rank_is_refused_and_the_first_is_told_who_it_was(digest: str, clock: Clock) -> None:
    own = started(digest, 1, 4, (0, 1))
    with Waiting(own, OWN) as first:
        with pytest.raises(LaunchError, match=f"claimed by another process, number {os.getpid()}, as well: RANK_ID is"):
            Waiting(own, SIBLING)
        with pytest.raises(LaunchError, match="claimed by another process, number 12, as well"):
            first.for_identity(None)


def test_of_two_that_begin_to_wait_at_one_moment_none_stays(
    digest: str, clock: Clock, closed: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[socket.socket] = []
    listen = meeting_point.listen

    def both_listen(digest: str, rank: int) -> socket.socket:
        made.extend(closed.enter_context(closing(listen(digest, rank))) for _ in range(2))
        return made[0]

    monkeypatch.setattr(meeting_point, "listen", both_listen)
    with pytest.raises(LaunchError, match="rank 1 of this job is claimed by another process"):
        Waiting(started(digest, 1, 4, (0, 1)), OWN)
    assert [one.fileno() == -1 for one in made] == [True, False]
    told = closed.enter_context(made[1].accept()[0])
    assert meeting_point.receive(told) == meeting_point.GatheringMessage("conflict", {"origin": asdict(OWN)}, ())
