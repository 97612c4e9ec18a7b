"""What a process takes over from its stand-in: its place in the job, not the settings that it has itself."""

from __future__ import annotations

import os
import socket
from contextlib import closing

from mpiparallel.cluster.gathering import meeting_point
from mpiparallel.communication.gathering.joining import take_identity
from mpiparallel.launch.rank.stand_in import hand_over


def test_a_stand_in_hands_over_who_it_is_for_mpi_and_its_open_files() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reading, writing = os.pipe()
    has = {"PMI_FD": str(writing), "PMI_RANK": "3", "OMPI_MCA_osc": "^ucx", "OMPI_MCA_btl": "tcp", "HOME": "/there"}
    mine = {"OMPI_MCA_btl": "self", "HOME": "/here", "PMI_RANK": "stale", "RANK_ID": "3"}
    with closing(ours), closing(theirs):
        hand_over(theirs, has, {"host": "n0"})
        message = meeting_point.receive(ours)
    assert message is not None
    assert message.fields["origin"] == {"host": "n0"}
    take_identity(mine, message)
    number = int(mine.pop("PMI_FD"))
    assert mine == {"OMPI_MCA_btl": "self", "OMPI_MCA_osc": "^ucx", "HOME": "/here", "PMI_RANK": "3", "RANK_ID": "3"}
    assert number != writing
    os.write(number, b"through")
    assert os.read(reading, 7) == b"through"
    for each in (reading, writing, number):
        os.close(each)
