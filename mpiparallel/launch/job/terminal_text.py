"""What a terminal is shown: words in colour where somebody looks, and text of others that it cannot obey."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from enum import Enum
from typing import IO, Final

# Control characters of C0 and C1 but for tab and line feed, marks that turn the direction of writing, what cuts lines
# in some programs, and halves of characters.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_GAP = re.compile(r"(?:^|(?<=\S)) {2,}(?=\S)")
_LEAST_ROOM: Final = 28
"""How many characters a last column needs to stand beside the others."""
_BELOW: Final = 6


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


def terminal_width() -> int:
    """Return how many characters a line of the terminal has; without one, as many as anybody wants."""
    return shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else sys.maxsize


def fitted(text: str, width: int) -> str:
    """Return a text of prose and tables in lines of at most ``width``; what does not fit of a column goes below it.

    Columns are told by two spaces or more. Last ones without room go below their row.

    >>> print(fitted("step  1 ms, most of it is products of matrices", 36))
    step  1 ms, most of it is products
          of matrices
    """
    return "\n".join(part for line in text.splitlines() for part in _fitted_line(line, width))


def _fitted_line(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    columns = [found.end() for found in _GAP.finditer(line)]
    start = columns[-1] if columns else 0
    if start and start > width - _LEAST_ROOM:
        fitting = [column for column in columns if len(line[:column].rstrip()) <= width]
        start, indent = (fitting or columns)[-1], " " * _BELOW
        return [line[:start].rstrip(), *_wrapped(_GAP.sub("  ", line[start:]), width, indent, indent)]
    hanging = " " * (start or 2)
    return _wrapped(line[start:], width, line[:start], hanging)


def _wrapped(words: str, width: int, first: str, others: str) -> list[str]:
    return textwrap.wrap(
        words, width, initial_indent=first, subsequent_indent=others, break_on_hyphens=False, break_long_words=False
    )
