"""What a terminal is shown: words in colour where somebody looks, and text of others that it cannot obey."""

from __future__ import annotations

import os
import re
from enum import Enum
from typing import IO

# Control characters of C0 and C1 but for tab and line feed, marks that turn the direction of writing, what cuts lines
# in some programs, and halves of characters.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Colour(Enum):
    """What a word on a terminal stands out by: the number that ECMA-48 gives it."""

    BOLD = 1
    RED = 31
    GREEN = 32
    YELLOW = 33


def has_colours(stream: IO[str] | None) -> bool:
    """Return whether ``stream`` is a terminal that shows colours, and its user has not set NO_COLOR."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
        return False
    try:
        return stream is not None and stream.isatty()
    except (OSError, ValueError):
        # A stream that has been closed.
        return False


def painted(text: str, colour: Colour, stream: IO[str] | None) -> str:
    """Return ``text`` in ``colour`` where ``stream`` shows colours, else as it is.

    >>> import io
    >>> painted("error:", Colour.RED, io.StringIO())
    'error:'
    """
    return f"\x1b[{colour.value}m{text}\x1b[0m" if has_colours(stream) else text


def printable(text: str) -> str:
    r"""Return ``text`` with each character that a terminal would obey as an escape that it only shows.

    >>> print(printable("loss \x1b[31m nan\r"))
    loss \x1b[31m nan\x0d
    """
    return _UNPRINTABLE.sub(lambda found: _escape(ord(found[0])), text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
