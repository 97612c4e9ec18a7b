"""Text of others, made fit to be shown on a terminal."""

from __future__ import annotations

import re

# Control characters of C0 and C1 but for tab and line feed, marks that turn the direction of writing, what cuts lines
# in some programs, and halves of characters.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Return ``text`` with each character that a terminal would obey as an escape that it only shows.

    >>> print(printable("loss \x1b[31m nan\r"))
    loss \x1b[31m nan\x0d
    """
    return _UNPRINTABLE.sub(lambda found: _escape(ord(found[0])), text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
