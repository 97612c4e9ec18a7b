"""A listing of a tutorial: its text with its lines and indentation, and what tells it from another edition of it."""

from __future__ import annotations

import hashlib
import io
import tokenize
from typing import NamedTuple

_WITHOUT_TEXT = {tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE, tokenize.ENDMARKER}
_UNCOUNTED = {tokenize.COMMENT, tokenize.NL}
_WIDTH = 4


class Listing(NamedTuple):
    """One listing: ``document/name``, its ``language`` (python, bash or json) and its ``text``."""

    document: str
    name: str
    language: str
    text: str

    @property
    def path(self) -> str:
        return f"{self.document}/{self.name}"


def digest(language: str, text: str) -> str:
    """Return 16 hexadecimal digits of what ``text`` means: Python's tokens with their blocks, or bare lines.

    Spaces, comments and empty lines do not count, so a listing whose lines and blocks have been restored rightly has
    the digest of the original.
    """
    if language == "python":
        tokens = tokenize.generate_tokens(io.StringIO(text.rstrip() + "\n").readline)
        parts = [
            f"{tokenize.tok_name[token.type]} {'' if token.type in _WITHOUT_TEXT else token.string}"
            for token in tokens
            if token.type not in _UNCOUNTED
        ]
    else:
        parts = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def restored(words: list[str], lines: str) -> str:
    """Return the text that ``words`` begin with; ``lines`` has for each line a dot a level, then its number of words.

    >>> print(restored("if x: # always y = 1 z = 2".split(), "4 .3 3"), end="")
    if x: # always
        y = 1
    z = 2
    """
    text, place = [], 0
    for line in lines.split():
        count = int(line.lstrip("."))
        level = len(line) - len(line.lstrip("."))
        text.append(" " * (_WIDTH * level) + " ".join(words[place : place + count]))
        place += count
    return "\n".join(text) + "\n"
