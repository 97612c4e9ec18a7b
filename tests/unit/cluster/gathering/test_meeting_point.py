"""Where processes wait: one a rank, seen by others, gone with the process; messages keep their files."""

from __future__ import annotations

import os
import socket
from contextlib import closing

import pytest

from mpiparallel.cluster.gathering import meeting_point
from mpiparallel.errors import LaunchError

DIGEST = f"test{os.getpid()}"


def test_one_process_waits_as_a_rank_and_others_see_it() -> None:
    assert meeting_point.waiting(DIGEST, range(3)) == frozenset()
    with closing(meeting_point.listen(DIGEST, 1)):
        assert meeting_point.waiting(DIGEST, range(3)) == {1}
        with pytest.raises(OSError, match="in use"):
            meeting_point.listen(DIGEST, 1)
    assert meeting_point.waiting(DIGEST, range(3)) == frozenset()
    with pytest.raises(OSError, match="refused"):
        meeting_point.call(DIGEST, 1)


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
