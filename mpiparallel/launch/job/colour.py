"""Colours of words on a terminal; none where nobody looks, or where the user wants none."""

from __future__ import annotations

import os
from enum import Enum
from typing import IO


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
