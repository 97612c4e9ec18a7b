"""What a subcommand prints."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from mpiparallel.launch.job.console import discard


def answer(told: Any, lines: Iterable[str], as_json: bool) -> None:
    """Print ``told`` as JSON, or ``lines``, in what the terminal can show."""
    if as_json:
        text = json.dumps(told, allow_nan=False)
    else:
        encoding = sys.stdout.encoding or "ascii"
        text = "\n".join(lines)
        if not encoding.lower().replace("-", "").startswith("utf"):
            text = text.translate(_PLAIN)
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # The reader, like head, has seen enough; nothing may be flushed to it at exit either.
        discard(sys.stdout)


_PLAIN = str.maketrans({"│": "|", "├": "|", "└": "`", "─": "-", "·": "."})


def table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: str) -> list[str]:
    """Return the lines of a table; columns whose letter in ``numbers`` is ``r`` are aligned to the right.

    >>> table(["name", "size"], [["a", "1 B"]], "lr")
    ['name  size', 'a      1 B']
    """
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if side == "r" else cell.ljust(width)
            for cell, width, side in zip(row, widths, numbers, strict=True)
        ).rstrip()
        for row in (head, *rows)
    ]


def several(count: int, noun: str) -> str:
    """Return a number of things.

    >>> several(1, "file"), several(2000, "file")
    ('1 file', '2,000 files')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def moment(seconds: float) -> str:
    """Return a time since 1970 as the clock on the wall shows it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) if seconds else "-"
