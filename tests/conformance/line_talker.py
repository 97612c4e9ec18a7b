"""A rank of the line that says what a test wants, step by step."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Callable

from mpiparallel.launch.line import address
from mpiparallel.launch.line.exchange import Exchange
from mpiparallel.launch.line.introduction import Introduction
from mpiparallel.launch.line.message import encode, encode_sealed
from mpiparallel.launch.line.seal import Seal
from tests.conformance.patience import Patience

LIMIT = 300.0


def until(exchange: Exchange, happened: Callable[[], bool]) -> None:
    waiting = Patience()
    while not happened():
        assert waiting.is_left()
        exchange.listen(0.01)


def connect(exchange: Exchange) -> socket.socket:
    return address.connect(exchange.address.hosts[0], exchange.address.port, LIMIT)


class Talker:
    """A rank that says what a test wants, step by step, and listens while the launcher does."""

    def __init__(self, exchange: Exchange, rank: int = 1, process: int | None = None) -> None:
        self.exchange = exchange
        self.stream = connect(exchange)
        place = address.place_of(self.stream, self.stream.getpeername())
        self.introduction = Introduction.of(rank, rank if process is None else process, place)
        self.seal: Seal | None = None

    def __enter__(self) -> Talker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    def hello(self, **changed: object) -> bytes:
        own = self.introduction
        proof = own.proof(self.exchange.address.token, "hello")
        fields = {"rank": own.rank, "process": own.process, "nonce": own.nonce, "proof": proof}
        return encode("hello", **{**fields, **changed})

    def greet(self) -> None:
        """Prove that this is a rank, as far as its answer."""
        self.stream.sendall(self.hello())
        challenge = json.loads(self.heard())
        token = self.exchange.address.token
        self.introduction = self.introduction.answered(challenge["nonce"])
        assert self.introduction.is_proven(token, "challenge", challenge["proof"])
        self.seal, self.launcher = self.introduction.seal(token, "rank"), self.introduction.seal(token, "launcher")

    def answer(self, **fields: object) -> None:
        self.say("answer", **{"pid": 7, "host": "n1", **fields})
        assert json.loads(self.launcher.opened(self.heard().splitlines()[0]))["word"] == "welcome"

    def say(self, word: str, **fields: object) -> None:
        assert self.seal
        self.stream.sendall(encode_sealed(self.seal, word, **fields))

    def heard(self) -> bytes:
        until(self.exchange, lambda: bool(select.select([self.stream], [], [], 0)[0]))
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


def called(exchange: Exchange, rank: int = 1, process: int | None = None, **fields: object) -> Talker:
    talker = Talker(exchange, rank, process)
    talker.greet()
    talker.answer(**fields)
    return talker
