"""What a listing needs before it can run: its own faults, each mended by a small correction with its reason."""

from __future__ import annotations

import re
from typing import NamedTuple

INDENT = 4
_IMPORT = re.compile(r"^(\s*(?:from|import) )mindspore\b", re.MULTILINE)


class Correction(NamedTuple):
    """In a listing ``old`` becomes ``new``, once; an empty ``old`` is the place before its first line.

    ``new`` None moves the lines of a block, from the one with ``old`` on, one level to the left. One with a ``variant``
    is made only where a test asks for that.
    """

    listing: str
    old: str
    new: str | None
    reason: str
    variant: str = ""


def corrected(text: str, corrections: list[Correction]) -> str:
    """Return ``text`` with ``corrections`` made in order; ValueError where there is nothing to correct."""
    for one in corrections:
        if one.old not in text:
            raise ValueError(f"{one.listing} has no {one.old!r} to correct: {one.reason}")
        if one.new is None:
            text = _outdented(text, one.old)
        else:
            text = text.replace(one.old, one.new, 1) if one.old else f"{one.new}\n{text}"
    return text


def _outdented(text: str, within: str) -> str:
    lines = text.splitlines()
    first = next(place for place, line in enumerate(lines) if within in line)
    left = _indentation(lines[first])
    stop = next((place for place in range(first, len(lines)) if _indentation(lines[place]) < left), len(lines))
    lines[first:stop] = [line[INDENT:] for line in lines[first:stop]]
    return "\n".join(lines) + "\n"


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def with_import_changed(text: str) -> str:
    """Return ``text`` with the name of the package that it imports changed: the only change that a user makes.

    >>> with_import_changed("from mindspore.nn import Momentum")
    'from mpiparallel.nn import Momentum'
    """
    return _IMPORT.sub(r"\1mpiparallel", text)
