"""The messages of the control channel: one JSON object a line, bounded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from mpiparallel.errors import LaunchError
from mpiparallel.launch.control.seal import Seal

HELLO, CHALLENGE, ANSWER, WELCOME = "hello", "challenge", "answer", "welcome"
"""A rank calls, the launcher proves who it is, the rank does, and each knows the other: all that follows is sealed."""
RANK, LAUNCHER = "rank", "launcher"
"""Whose seal it is."""
SCRIPT_ENDED = "script ended"
"""What a rank says when its script has ended, but may have threads, exit handlers and MPI to end yet."""
COMPLETED, PREEMPTED, FAILED = "completed", "preempted", "failed"
FAILING = "failing"
"""A rank says it as soon as it fails, and FAILED once it can tell how."""
SIGNAL = "signal"
READY, ALL_READY = "ready", "all ready"
"""A rank says the one; when all have, each is told the other."""
LAST_WORDS = (COMPLETED, PREEMPTED, FAILED)

LONGEST = 256 * 1024
LONGEST_OF_STRANGER = 1024


def encode(word: str, **fields: Any) -> bytes:
    """Return a message: its word and its fields."""
    return json.dumps({"word": word, **fields}).encode() + b"\n"


def encode_sealed(seal: Seal, word: str, **fields: Any) -> bytes:
    """Return a message that shows by ``seal`` who has said it."""
    return seal.closed(encode(word, **fields).rstrip(b"\n")) + b"\n"


class Inbox:
    """Puts the bytes that come in together to messages of at most ``longest`` bytes; each must have the ``seal``."""

    def __init__(self, longest: int = LONGEST) -> None:
        self.longest = longest
        self.seal: Seal | None = None
        self._pending = bytearray()

    def add(self, content: bytes) -> Iterator[Mapping[str, Any]]:
        """Yield the messages that are whole with ``content``. Raises LaunchError for what is no message."""
        self._pending += content
        while (end := self._pending.find(b"\n")) >= 0:
            line = bytes(self._pending[:end])
            del self._pending[: end + 1]
            yield self._decoded(line)
        if len(self._pending) > self.longest:
            raise LaunchError(f"a message on the control channel has more than {self.longest} bytes")

    def _decoded(self, line: bytes) -> Mapping[str, Any]:
        if len(line) > self.longest:
            raise LaunchError(f"a message on the control channel has more than {self.longest} bytes")
        try:
            message = json.loads(self.seal.opened(line) if self.seal else line)
        except (ValueError, RecursionError) as error:
            raise LaunchError("a message on the control channel is no JSON") from error
        if not (isinstance(message, dict) and isinstance(message.get("word"), str)):
            raise LaunchError("a message on the control channel has no word")
        return message
