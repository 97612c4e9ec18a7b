"""Who has called the launcher: a stranger, then a guest, who has shown that it knows the token, then a rank."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import LaunchError
from mpiparallel.launch.control.address import place_of
from mpiparallel.launch.control.handshake import Handshake
from mpiparallel.launch.control.message import (
    ANSWER,
    CHALLENGE,
    HELLO,
    LAUNCHER,
    LONGEST,
    LONGEST_OF_STRANGER,
    RANK,
    Inbox,
    encode,
    encode_sealed,
)
from mpiparallel.launch.control.private_socket import is_own
from mpiparallel.launch.control.seal import Seal

_HOST = re.compile(r"[0-9A-Za-z._-]{1,255}")
_MOST_PROCESSES = 1 << 22


@dataclass(eq=False)
class RankConnection:
    """One connection, the ``place`` where it has come in, and what is known of the other end."""

    stream: socket.socket
    place: str
    since: float = field(default_factory=time.monotonic)
    inbox: Inbox = field(default_factory=lambda: Inbox(LONGEST_OF_STRANGER))
    handshake: Handshake | None = None
    rank: int | None = None
    host: str = ""
    pid: int | None = None
    starter: int | None = None
    _seal: Seal | None = None

    @classmethod
    def admitted(cls, stream: socket.socket) -> RankConnection:
        """Return the stranger at the other end of ``stream``; OSError where it is another user's, says the kernel."""
        stream.setblocking(False)
        if stream.family == socket.AF_UNIX and not is_own(stream):
            raise PermissionError("a process of another user called")
        return cls(stream, place_of(stream, stream.getsockname()))

    def identified(self, message: Mapping[str, Any], token: str, size: int) -> Handshake:
        """Return who the stranger is by its ``message``; LaunchError unless it shows that it knows ``token``."""
        said = Handshake.parsed(message, self.place, size)
        if message["word"] != HELLO or not said.is_proven(token, HELLO, message.get("proof")):
            raise LaunchError("a stranger called")
        return said

    def challenge(self, handshake: Handshake, token: str) -> None:
        """Prove to the other end that this is the launcher, and ask for an answer that nobody can have heard before."""
        self.handshake = handshake.answered()
        proof = self.handshake.proof(token, CHALLENGE)
        self.stream.send(encode(CHALLENGE, nonce=self.handshake.answer, proof=proof))
        self._seal, self.inbox.seal = self.handshake.seal(token, LAUNCHER), self.handshake.seal(token, RANK)

    def be_rank(self, handshake: Handshake, message: Mapping[str, Any]) -> None:
        """Take ``message``, whose seal was right, for the answer; raise LaunchError where it is another one."""
        if message["word"] != ANSWER:
            raise LaunchError("a rank spoke before it had answered")
        self.rank, self.inbox.longest = handshake.rank, LONGEST
        host = message.get("host")
        if isinstance(host, str) and _HOST.fullmatch(host):
            self.host = host
        self.pid, self.starter = _process(message.get("pid")), _process(message.get("starter"))

    def tell(self, word: str, **fields: Any) -> None:
        """Send a message to the rank; raise OSError unless it is taken whole, as no later one would be understood."""
        if self._seal is None:
            raise ConnectionError("nothing is told to strangers")
        content = encode_sealed(self._seal, word, **fields)
        if self.stream.send(content) < len(content):
            raise ConnectionError("the rank does not listen")


def _process(value: object) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return int(str(value)) if is_number and 0 < int(str(value)) <= _MOST_PROCESSES else None
