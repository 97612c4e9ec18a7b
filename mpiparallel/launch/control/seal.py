"""What shows of a message on the control channel who has said it, and that it is the next one."""

from __future__ import annotations

import hmac

from mpiparallel.errors import LaunchError

_MARK_CHARACTERS = 64
_BETWEEN = b" "
_COUNT_BYTES = 8


class Seal:
    """Marks what one side of a connection says, in order: none else can make, change, repeat or leave out a message.

    >>> Seal(b"key").opened(Seal(b"key").closed(b"words"))
    b'words'
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._count = 0

    def closed(self, content: bytes) -> bytes:
        """Return ``content`` behind its mark."""
        return self._next_mark(content) + _BETWEEN + content

    def opened(self, content: bytes) -> bytes:
        """Return what ``closed`` was given; raise LaunchError where it is not the next that the other side has said."""
        words = content[_MARK_CHARACTERS + len(_BETWEEN) :]
        if not hmac.compare_digest(content[: -len(words) or None], self._next_mark(words) + _BETWEEN):
            raise LaunchError("a message on the control channel has not the seal of the other side")
        return words

    def _next_mark(self, content: bytes) -> bytes:
        place = self._count.to_bytes(_COUNT_BYTES, "big")
        self._count += 1
        return hmac.digest(self._key, place + content, "sha256").hex().encode()
