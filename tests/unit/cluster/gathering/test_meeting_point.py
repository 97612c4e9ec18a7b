"""Where processes wait: one a rank, seen by others, gone with the process; messages keep their files."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from mpiparallel.cluster.gathering import meeting_point
from mpiparallel.errors import LaunchError

DIGEST = f"test{os.getpid()}"


def test_processes_wait_as_ranks_and_others_see_them() -> None:
    lookout = meeting_point.Lookout(DIGEST)
    assert lookout.waiting(range(3)) == frozenset()
    with closing(meeting_point.listen(DIGEST, 1)) as listener:
        assert lookout.waiting(range(3)) == {1}
        with closing(meeting_point.listen(DIGEST, 1)):
            meeting_point.call(DIGEST, 1, besides=listener).close()
        with pytest.raises(OSError, match="no process of this user waits as rank 1"):
            meeting_point.call(DIGEST, 1, besides=listener)
    assert lookout.waiting(range(3)) == frozenset()
    with pytest.raises(OSError, match="no process of this user waits as rank 1"):
        meeting_point.call(DIGEST, 1)


def test_a_process_that_has_its_name_but_does_not_listen_yet_is_asked_again() -> None:
    lookout = meeting_point.Lookout(DIGEST)
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) as listener:
        listener.bind(f"\0mpiparallel-rank-{os.geteuid()}-{DIGEST}-1-{'0' * 16}")
        assert lookout.waiting([1]) == frozenset()
        listener.listen()
        assert lookout.waiting([1]) == {1}


def test_who_takes_all_that_have_called_never_waits_for_one_more() -> None:
    with closing(meeting_point.listen(DIGEST, 3)) as listener, closing(meeting_point.call(DIGEST, 3)):
        assert not listener.getblocking()
        listener.accept()[0].close()
        with pytest.raises(BlockingIOError):
            listener.accept()


OWNING = """
import os, socket, sys, time
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind("\\0" + sys.argv[1])
listener.listen(0)
print("owned", flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be a second user as well")
def test_what_another_user_owns_is_nobody_who_waits() -> None:
    name = f"mpiparallel-rank-{os.geteuid()}-{DIGEST}-2-{'0' * 16}"
    with subprocess.Popen([sys.executable, "-I", "-c", OWNING, name], stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout
            assert owner.stdout.readline() == "owned\n"
            assert name in Path("/proc/net/unix").read_text()
            lookout = meeting_point.Lookout(DIGEST)
            assert lookout.waiting(range(3)) == frozenset()
            with pytest.raises(OSError, match="no process of this user"):
                meeting_point.call(DIGEST, 2)
            with closing(meeting_point.listen(DIGEST, 2)):
                assert lookout.waiting(range(3)) == {2}
                meeting_point.call(DIGEST, 2).close()
        finally:
            owner.kill()


def test_messages_arrive_whole_with_their_files() -> None:
    with closing(meeting_point.listen(DIGEST, 0)) as listener:
        caller = meeting_point.call(DIGEST, 0)
        connection, _ = listener.accept()
        with closing(connection):
            assert meeting_point.is_own(connection)
            assert meeting_point.process_of(connection) == os.getpid()
            reading, writing = os.pipe()
            meeting_point.send(caller, meeting_point.IDENTITY, [writing], text="x" * 100_000)
            meeting_point.send(caller, meeting_point.ENDED)
            first, second = meeting_point.receive(connection), meeting_point.receive(connection)
            assert first is not None
            assert second is not None
            assert (first.word, len(first.fields["text"]), second.word) == ("identity", 100_000, "ended")
            (number,) = first.files
            assert not os.get_inheritable(number)
            os.write(number, b"through")
            assert os.read(reading, 7) == b"through"
            for each in (reading, writing, number):
                os.close(each)
            caller.close()
            assert meeting_point.receive(connection) is None


@pytest.mark.parametrize("content", [b"x", b"[]", b"{}", b'"word"'])
def test_what_is_no_message_is_refused(content: bytes) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with closing(ours), closing(theirs):
        theirs.send(content)
        with pytest.raises(LaunchError, match="no message"):
            meeting_point.receive(ours)


def test_an_end_that_goes_without_reading_is_an_end_that_is_gone() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with closing(ours):
        meeting_point.send(ours, meeting_point.ENDED)
        theirs.close()
        assert meeting_point.receive(ours) is None


def test_who_cannot_listen_leaves_no_socket_open() -> None:
    def open_files() -> int:
        return len([*Path("/proc/self/fd").iterdir()])

    before = open_files()
    # Linux has names of at most 108 bytes for sockets.
    with pytest.raises(OSError, match="too long") as caught:
        meeting_point.listen("x" * 200, 0)
    assert caught.tb is not None
    assert open_files() <= before
