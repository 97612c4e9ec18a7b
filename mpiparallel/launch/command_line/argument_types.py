"""Numbers and paths on the command line, checked as they are parsed."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from mpiparallel.cluster.json_document import shown

_MOST_DIGITS = 7
# Linux's PATH_MAX, which counts the NUL at the end, and NAME_MAX.
_LONGEST_PATH = 4095
_LONGEST_NAME = 255


def rank_count(text: str) -> int:
    """Return ``text`` as a number of ranks; raise ArgumentTypeError where it is none.

    >>> rank_count("8")
    8
    """
    return _from_one(text, "a number of ranks")


def count(text: str) -> int:
    """Return ``text`` as a whole number from 1; raise ArgumentTypeError where it is none.

    >>> count("8")
    8
    """
    return _from_one(text, "a count")


def seconds(text: str) -> float:
    """Return ``text`` as seconds above 0; raise ArgumentTypeError where it is no such time.

    >>> seconds("1.5")
    1.5
    """
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(f'"{text}" is not a time; give seconds above 0')
    return found


def file_path(text: str) -> Path:
    """Return ``text`` as a path; raise ArgumentTypeError where no file can have it.

    >>> file_path("saved/")
    PosixPath('saved')
    """
    return Path(path_text(text))


def path_text(text: str) -> str:
    """Return ``text``, unchanged, if it can be the path of a file; else raise ArgumentTypeError."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty; a shell variable that is not set gives that")
    length, longest = len(os.fsencode(text)), max(len(os.fsencode(name)) for name in Path(text).parts or [""])
    if length > _LONGEST_PATH or longest > _LONGEST_NAME:
        raise argparse.ArgumentTypeError(
            f"{shown(text)} is too long: a path may have {_LONGEST_PATH} bytes, a name in it {_LONGEST_NAME}"
        )
    return text


def _from_one(text: str, what: str) -> int:
    if not (text.isascii() and len(text) <= _MOST_DIGITS and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f'"{text}" is not {what}; give a whole number from 1')
    return int(text)
