"""What is told of a script's error: one line, and the traceback without the frames of what runs the script."""

from __future__ import annotations

import argparse
import runpy
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import MpiParallelError

_PACKAGE = str(Path(__file__).parents[2])
_LIBRARY = sysconfig.get_path("stdlib")
_RUNNERS = (str(Path(__file__).parents[1] / name) for name in ("rank/worker.py", "job/script.py"))
_LAUNCHING_FILES = frozenset({*_RUNNERS, runpy.__file__, "<frozen runpy>"})
_LONGEST_PIECE = 4000
_LONGEST_LINE = 1000
# As JSON, where a character may take twelve bytes, it must be a message on the control channel.
_LONGEST_TEXT = 16 * 1024


@dataclass(frozen=True)
class TracebackReport:
    """The class of an error and the first ``line`` of its message; its ``traceback``, whole and ``shortened``."""

    line: str
    traceback: str
    shortened: str


def report(error: BaseException, debug: bool) -> TracebackReport:
    """Return what is told of ``error``; of what mpiparallel refuses only the user's own lines, unless ``debug``."""
    try:
        return _report(error, debug)
    except Exception as second:
        # Its own methods may raise anything, and memory may be what is lacking.
        line = f"{type(error).__name__} (to put it in words fails: {type(second).__name__})"
        return TracebackReport(line, f"{line}\n", f"{line}\n")


def _report(error: BaseException, debug: bool) -> TracebackReport:
    told = traceback.TracebackException(type(error), error, _script_frames(error.__traceback__))
    if isinstance(error, MpiParallelError) and not debug:
        told.stack = traceback.StackSummary.from_list(_own(told.stack))
        told.__cause__ = told.__context__ = None
    pieces = list(told.format())
    shortened = "".join(map(_shortened, pieces))[-_LONGEST_TEXT:]
    line = parser_exit(error) or _first_line(told.format_exception_only())
    return TracebackReport(line[:_LONGEST_LINE], "".join(pieces), shortened)


def _own(frames: Iterable[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """Return the frames of the user's code: not the package's, nor those of Python's library that it has called."""
    own: list[traceback.FrameSummary] = []
    is_inside = False
    for frame in frames:
        in_library = frame.filename.startswith(_LIBRARY) and "site-packages" not in frame.filename
        is_inside = frame.filename.startswith(_PACKAGE) or (is_inside and in_library)
        if not is_inside:
            own.append(frame)
    return own


def _first_line(pieces: Iterable[str]) -> str:
    # Of an error of syntax the place comes first, each line of it indented.
    message = next((piece for piece in pieces if not piece.startswith(" ")), "")[: 2 * _LONGEST_LINE]
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].endswith(":"):
        # The message begins with an empty line.
        lines[0] = f"{lines[0]} {lines[1]}"
    return lines[0] if lines else ""


def _shortened(piece: str) -> str:
    more = len(piece) - _LONGEST_PIECE
    return piece if more <= 0 else f"{piece[:_LONGEST_PIECE]} ... and {more:,} characters more\n"


def _script_frames(frames: TracebackType | None) -> TracebackType | None:
    while frames is not None and frames.tb_frame.f_code.co_filename in _LAUNCHING_FILES:
        frames = frames.tb_next
    return frames


def parser_exit(error: BaseException) -> str | None:
    """Return in one line what argparse had to say of the arguments when it raised ``error``; None if it did not.

    >>> parser = argparse.ArgumentParser(prog="train.py")
    >>> _ = parser.add_argument("--steps", type=int)
    >>> try:
    ...     parser.error("argument --steps: invalid int value: 'x'")
    ... except SystemExit as end:
    ...     parser_exit(end)
    "SystemExit: train.py: argument --steps: invalid int value: 'x'"
    """
    if not isinstance(error, SystemExit):
        return None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        parser, message = frame.f_locals.get("self"), frame.f_locals.get("message")
        if frame.f_code.co_name == "error" and isinstance(parser, argparse.ArgumentParser) and isinstance(message, str):
            return f"SystemExit: {parser.prog}: {' '.join(message.split())}"
    return None
