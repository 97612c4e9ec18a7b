"""A process between a rank and SLURM's pmi2, which makes MPICH write lines that SLURM reads whole.

SLURM announces values of at most 1,024 bytes. It reads 1,024 bytes of a line in which such a value and its key stand
(``handle_pmi1_cmd`` of its plugin mpi/pmi2). With UCX, MPICH sends 4 KiB of memory from where its address begins. Its
values are as long as announced, unless zeros shorten them. So it depends on what lies there whether the job starts.
MPI_Init waits for SLURM's answers, maybe without the interpreter: only another process can be between them.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
from collections.abc import MutableMapping

_FILE_VARIABLE = "PMI_FD"
_ANNOUNCEMENT = b"cmd=maxes "
# Beside it a line has a command, a job's name and a key: less than 128 bytes.
_LONGEST = (b"vallen_max=1024", b"vallen_max=0896")
_BYTES_AT_ONCE = 1 << 16


def relay_pmi2(variables: MutableMapping[str, str]) -> None:
    """Put a relay between this process and SLURM's pmi2, where that has started it.

    ``variables`` is the environment in which MPI will find its connection, that to the relay. The relay ends with this
    process, and takes no signal of the job's.
    """
    is_step = "SLURM_STEP_ID" in variables and "PMI_RANK" in variables and "MPI_LOCALRANKID" not in variables
    words = variables.get(_FILE_VARIABLE, "")
    if not is_step or not (words.isascii() and words.isdigit()):
        return
    server = int(words)
    own, other = socket.socketpair()
    for number in (server, other.fileno()):
        os.set_inheritable(number, True)
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", __file__, str(server), str(other.fileno())],
        variables,
        file_actions=[(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1)],
        setsigmask=signal.valid_signals(),
    )
    other.close()
    os.close(server)
    variables[_FILE_VARIABLE] = str(own.detach())


def _relay(server: socket.socket, rank: socket.socket) -> None:
    """Hand on what each of the two says, until one has left."""
    with selectors.DefaultSelector() as waiting:
        waiting.register(server, selectors.EVENT_READ, rank)
        waiting.register(rank, selectors.EVENT_READ, server)
        while True:
            for key, _ in waiting.select():
                said = os.read(key.fd, _BYTES_AT_ONCE)
                if not said:
                    return
                key.data.sendall(said.replace(*_LONGEST) if said.startswith(_ANNOUNCEMENT) else said)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as _server, socket.socket(fileno=int(sys.argv[2])) as _rank:
        _relay(_server, _rank)
