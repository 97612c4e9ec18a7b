"""How the two ends of a new connection prove to each other that they are of one job; the token is never sent."""

from __future__ import annotations

import hmac
import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import LaunchError
from mpiparallel.launch.control.seal import Seal

_NONCE = re.compile(r"[0-9a-f]{32}")
_NONCE_BYTES = 16


@dataclass(frozen=True)
class Handshake:
    """What both ends know of a new connection: who calls, at which place, and a random number of each; none is secret.

    Only who knows the token can make a proof over it. A proof says who makes it and what for. So none is good for
    another rank, at another place, in the other direction, or a second time.

    >>> first = Handshake.of(rank=1, process=1, place="10.0.0.1:4711")
    >>> first.is_proven("token", "hello", first.proof("token", "hello"))
    True
    >>> first.is_proven("token", "hello", first.answered().proof("token", "hello"))
    False
    """

    rank: int
    process: int
    place: str
    nonce: str
    answer: str = ""

    @classmethod
    def of(cls, rank: int, process: int, place: str) -> Handshake:
        """Return that of a rank which calls ``place``, with a new nonce."""
        return cls(rank, process, place, _new_nonce())

    @classmethod
    def parsed(cls, message: Mapping[str, Any], place: str, size: int) -> Handshake:
        """Return what ``message`` says, which came in at ``place``; LaunchError where no rank of ``size`` says it."""
        rank, process, nonce = message.get("rank"), message.get("process"), message.get("nonce")
        if not (_is_number(rank, size) and _is_number(process, size) and _is_nonce(nonce)):
            raise LaunchError("what calls is no rank of this job")
        return cls(int(str(rank)), int(str(process)), place, str(nonce))

    def answered(self, nonce: object = None) -> Handshake:
        """Return it with the ``nonce`` of the launcher, a new one if none is given; LaunchError for what is none."""
        if nonce is None:
            return replace(self, answer=_new_nonce())
        if not _is_nonce(nonce):
            raise LaunchError("what listens there is not the launcher")
        return replace(self, answer=str(nonce))

    def proof(self, token: str, purpose: str) -> str:
        """Return what only who knows ``token`` can say."""
        return self._digest(token, "proof", purpose).hex()

    def is_proven(self, token: str, purpose: str, proof: object) -> bool:
        """Tell whether ``proof``, which came from elsewhere, is that of somebody who knows ``token``."""
        return isinstance(proof, str) and hmac.compare_digest(
            proof.encode(errors="replace"), self.proof(token, purpose).encode()
        )

    def seal(self, token: str, side: str) -> Seal:
        """Return the seal of what ``side`` says on this connection from now on."""
        return Seal(self._digest(token, "seal", side))

    def _digest(self, token: str, *words: str) -> bytes:
        said = json.dumps([*words, self.rank, self.process, self.place, self.nonce, self.answer])
        return hmac.digest(token.encode(), said.encode(), "sha256")


def _new_nonce() -> str:
    return os.urandom(_NONCE_BYTES).hex()


def _is_nonce(value: object) -> bool:
    return isinstance(value, str) and _NONCE.fullmatch(value) is not None


def _is_number(value: object, size: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < size
