"""What a rank that a shell has started tells its stand-in at its end, and how it ends where the job ends first."""

from __future__ import annotations

import atexit
import os
import queue
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import StringIO
from typing import Any

import pytest

from mpiparallel.cluster.gathering import meeting_point
from mpiparallel.cluster.gathering.meeting_point import GatheringMessage
from mpiparallel.communication.gathering import Tie

PATIENCE = 5.0


class Ends:
    """Two ends of a tie, and what the process with the tie does."""

    def __init__(self) -> None:
        self.own, self.stand_in = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.at_exit: list[Callable[[], None]] = []
        self.in_children: list[Callable[[], None]] = []
        self.happened: queue.Queue[object] = queue.Queue()

    def leave(self, code: int) -> None:
        self.happened.put(code)
        if threading.current_thread() is threading.main_thread():
            raise SystemExit(code)

    def next(self) -> object:
        return self.happened.get(timeout=PATIENCE)


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ends]:
    ends = Ends()
    monkeypatch.setattr(os, "_exit", ends.leave)
    monkeypatch.setattr(atexit, "register", ends.at_exit.append)
    monkeypatch.setattr(os, "register_at_fork", lambda after_in_child: ends.in_children.append(after_in_child))
    yield ends
    with suppress(OSError):
        ends.stand_in.shutdown(socket.SHUT_RDWR)
    ends.stand_in.close()
    for thread in threading.enumerate():
        if thread.name == "tie to mpirun":
            thread.join(PATIENCE)
    ends.own.close()


class Starter:
    """What has started mpirun, with its last words, if it has any within ten seconds."""

    def __init__(self, words: str | None) -> None:
        self.words = words

    def last_words(self, seconds: float) -> str | None:
        assert seconds == 10
        return self.words


class Stdout(StringIO):
    """A stdout that counts how often it is flushed; a closed one cannot be."""

    flushes = 0

    def flush(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        self.flushes += 1


@pytest.mark.parametrize(
    ("starter", "said"),
    [
        (None, "mpiparallel: rank 2 ends with the job; rank 0 says why\n"),
        (Starter(None), "mpiparallel: rank 2 ends with the job; rank 0 says why\n"),
        (Starter("rank 1 of 3 failed first: odd"), "mpiparallel: error: rank 1 of 3 failed first: odd\n"),
    ],
)
@pytest.mark.parametrize("is_closed", [False, True])
def test_a_rank_whose_job_has_ended_says_why_as_far_as_it_knows_and_fails(
    starter: Any,
    said: str,
    is_closed: bool,
    ends: Ends,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stdout = Stdout()
    if is_closed:
        stdout.close()
    monkeypatch.setattr(sys, "stdout", stdout)
    Tie(ends.own, 2, starter)
    ends.stand_in.close()
    assert ends.next() == 1
    assert (capfd.readouterr().err, stdout.flushes) == (said, 0 if is_closed else 1)


def told(ends: Ends, leave: Callable[[], Any]) -> GatheringMessage:
    """Return what is said to the stand-in, which waits a little before it hangs up."""
    heard: list[GatheringMessage | None] = []

    def listen() -> None:
        heard.append(meeting_point.receive(ends.stand_in))
        # Nobody has left before the stand-in has.
        threading.Event().wait(0.05)
        ends.happened.put("the stand-in has hung up")
        ends.stand_in.close()

    thread = threading.Thread(target=listen)
    thread.start()
    with pytest.raises(SystemExit) as caught:
        leave()
    thread.join(PATIENCE)
    assert [ends.next(), ends.next()] == ["the stand-in has hung up", caught.value.code]
    (message,) = heard
    assert message is not None
    return message


def test_a_rank_that_fails_tells_why_and_leaves_when_its_stand_in_has_heard_it(
    ends: Ends, capfd: pytest.CaptureFixture[str]
) -> None:
    tie = Tie(ends.own, 2)

    def fail() -> None:
        try:
            raise ValueError("wrong on purpose")
        except ValueError as error:
            tie.fail(error)

    message = told(ends, fail)
    assert (message.word, message.fields["code"]) == ("failed", 1)
    assert message.fields["summary"] == "ValueError: wrong on purpose"
    assert message.fields["traceback"].startswith("Traceback (most recent call last):\n")
    assert message.fields["traceback"].endswith("ValueError: wrong on purpose\n")
    # It has said why already.
    assert capfd.readouterr().err == ""


def test_a_rank_whose_tests_fail_leaves_with_pytests_code(ends: Ends) -> None:
    message = told(ends, lambda: Tie(ends.own, 2).leave(5, "pytest ended with exit code 5"))
    assert message.fields == {"code": 5, "summary": "pytest ended with exit code 5", "traceback": ""}


@pytest.mark.parametrize("letter", ["x", "\u8a9e", "\U0001f600"])
def test_however_long_an_error_is_its_beginning_and_the_end_of_its_traceback_are_told(letter: str, ends: Ends) -> None:
    error = ValueError(f"odd {letter * 300_000} even")
    message = told(ends, lambda: Tie(ends.own, 2).fail(error))
    assert message.fields["summary"].startswith(f"ValueError: odd {letter * 1000}")
    assert message.fields["traceback"].endswith(f"{letter * 1000} even\n")


def test_a_rank_that_cannot_tell_its_stand_in_leaves_all_the_same(ends: Ends) -> None:
    tie = Tie(ends.own, 2)
    ends.own.shutdown(socket.SHUT_WR)
    with pytest.raises(SystemExit, match=r"^3$"):
        tie.leave(3, "odd")


def test_a_process_says_at_its_end_that_it_ends_and_a_child_of_a_fork_says_nothing(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    Tie(ends.own, 2)
    (say_end,) = ends.at_exit
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: 1)
        say_end()
    ends.stand_in.setblocking(False)
    with pytest.raises(BlockingIOError):
        meeting_point.receive(ends.stand_in)
    say_end()
    assert meeting_point.receive(ends.stand_in) == GatheringMessage("ended", {}, ())
    ends.own.shutdown(socket.SHUT_WR)
    say_end()


def test_a_child_of_a_fork_does_not_hold_the_tie(ends: Ends) -> None:
    Tie(ends.own, 2)
    (close,) = ends.in_children
    assert close == ends.own.close
