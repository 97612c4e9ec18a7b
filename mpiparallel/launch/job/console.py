"""Where the launcher speaks: its own words on stderr, and what ranks print on stdout."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

from mpiparallel.launch.job.lost_output import LostOutput
from mpiparallel.launch.job.terminal_text import Colour, painted, printable

# A closed stream is None, a stream that a program closed raises ValueError.
_FAILS = (OSError, ValueError, AttributeError)

_COLOURS = {"error": Colour.RED, "warning": Colour.YELLOW}
_GRAVITY = re.compile(f"(?<=mpiparallel: )({'|'.join(_COLOURS)}):")


class Console:
    """Says words on stderr, made printable, and shows output on stdout as it is.

    What one of them does not take is dropped and counted, and nothing raises. A terminal that is gone, or a full disk
    behind a redirection, is no reason to end a job.
    """

    def __init__(self) -> None:
        self._loss = LostOutput()
        self._unsaid: list[str] = []

    def say(self, words: str) -> None:
        """Say ``words`` behind the name of the program."""
        line = f"mpiparallel: {printable(words)}\n"
        if self._unsaid:
            self._unsaid.append(line)
            return
        try:
            sys.stderr.write(_GRAVITY.sub(_coloured, line, 1))
            sys.stderr.flush()
        except _FAILS:
            self._unsaid.append(line)
            discard(sys.stderr)

    def show(self, content: bytes) -> None:
        """Show ``content``; as bytes, since a terminal that cannot show a character must not end the job."""
        if self._loss:
            self._loss.add(len(content))
            return
        try:
            sys.stdout.flush()
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        except _FAILS as error:
            self._loss.add(len(content), error)
            discard(sys.stdout)

    @property
    def is_read_together(self) -> bool:
        """Whether stdout and stderr go to one place, so that nothing is printed twice."""
        try:
            return not self._loss and os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
        except _FAILS:
            return False

    def close(self, log: Path) -> None:
        """Say what could not be shown, and add it to ``log``, with the words that could not be said."""
        added = [self._loss_in_words()] if self._loss else []
        for words in added:
            self.say(words)
        lines = self._unsaid or [f"mpiparallel: {words}\n" for words in added]
        if lines:
            with suppress(OSError), log.open("a", encoding="utf-8", errors="backslashreplace") as stream:
                stream.writelines(lines)

    def _loss_in_words(self) -> str:
        return f"warning: stdout took no more: {self._loss} that ranks printed are not shown; their logs have them"


def _coloured(found: re.Match[str]) -> str:
    return painted(found[0], _COLOURS[found[1]], sys.stderr)


def discard(stream: IO[str] | None) -> None:
    """Let all that is still written to ``stream`` vanish: Python would complain at its end, by another exit code."""
    with suppress(*_FAILS):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())  # type: ignore[union-attr]
        os.close(nothing)


def flush_or_discard(stream: IO[str] | None) -> None:
    """Write what is still to be written to ``stream``, or let it vanish."""
    try:
        if stream is not None:
            stream.flush()
    except (OSError, ValueError):
        discard(stream)
