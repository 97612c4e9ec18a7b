"""Numbers on the command line, checked as they are parsed."""

from __future__ import annotations

import argparse

_MOST_DIGITS = 7


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


def _from_one(text: str, what: str) -> int:
    if not (text.isascii() and len(text) <= _MOST_DIGITS and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f'"{text}" is not {what}; give a whole number from 1')
    return int(text)
