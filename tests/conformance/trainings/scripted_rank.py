"""A rank that says to the launcher what a test wants, step by step."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Callable

from mpiparallel.launch.control import address
from mpiparallel.launch.control.control_server import ControlServer
from mpiparallel.launch.control.handshake import Handshake
from mpiparallel.launch.control.message import encode, encode_sealed
from mpiparallel.launch.control.seal import Seal
from tests.conformance.patience import Patience

LIMIT = 300.0


def until(server: ControlServer, happened: Callable[[], bool]) -> None:
    waiting = Patience()
    while not happened():
        assert waiting.is_left()
        server.listen(0.01)


def connect(server: ControlServer) -> socket.socket:
    return address.connect(server.address.hosts[0], server.address.port, LIMIT)


class ScriptedRank:
    """A rank that says what a test wants, step by step, and listens while the launcher does."""

    def __init__(self, server: ControlServer, rank: int = 1, process: int | None = None) -> None:
        self.server = server
        self.stream = connect(server)
        place = address.place_of(self.stream, self.stream.getpeername())
        self.handshake = Handshake.of(rank, rank if process is None else process, place)
        self.seal: Seal | None = None

    def __enter__(self) -> ScriptedRank:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    def hello(self, **changed: object) -> bytes:
        own = self.handshake
        proof = own.proof(self.server.address.token, "hello")
        fields = {"rank": own.rank, "process": own.process, "nonce": own.nonce, "proof": proof}
        return encode("hello", **{**fields, **changed})

    def greet(self) -> None:
        """Prove that this is a rank, as far as its answer."""
        self.stream.sendall(self.hello())
        challenge = json.loads(self.heard())
        token = self.server.address.token
        self.handshake = self.handshake.answered(challenge["nonce"])
        assert self.handshake.is_proven(token, "challenge", challenge["proof"])
        self.seal, self.launcher = self.handshake.seal(token, "rank"), self.handshake.seal(token, "launcher")

    def answer(self, **fields: object) -> None:
        self.say("answer", **{"pid": 7, "host": "n1", **fields})
        assert json.loads(self.launcher.opened(self.heard().splitlines()[0]))["word"] == "welcome"

    def say(self, word: str, **fields: object) -> None:
        assert self.seal
        self.stream.sendall(encode_sealed(self.seal, word, **fields))

    def heard(self) -> bytes:
        until(self.server, lambda: bool(select.select([self.stream], [], [], 0)[0]))
        return self.stream.recv(4096)

    def is_gone(self) -> bool:
        """Whether the launcher has hung up; what it has said before is dropped."""
        self.stream.setblocking(False)
        try:
            return not self.stream.recv(4096)
        except BlockingIOError:
            return False
        except ConnectionError:
            return True


def called(server: ControlServer, rank: int = 1, process: int | None = None, **fields: object) -> ScriptedRank:
    talker = ScriptedRank(server, rank, process)
    talker.greet()
    talker.answer(**fields)
    return talker
