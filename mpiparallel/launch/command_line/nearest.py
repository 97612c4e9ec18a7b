"""What somebody meant who wrote a name that there is not."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

# The longest name there is has 20 characters; comparing takes quadratic time.
_LONGEST = 40
_LIKENESS = 0.55


def nearest(word: str, names: Iterable[str]) -> str | None:
    """Return the one of ``names`` that is most like ``word``, or None where none is like it.

    Dashes before a name, and which of - and _ joins its words, count for nothing.

    >>> nearest("shwo", ["ls", "show"]), nearest("--nprocs", ["--ranks", "-n"]), nearest("--Dry_run", ["--dry-run"])
    ('show', None, '--dry-run')
    """
    plain = {_plain(name): name for name in reversed(list(names))}
    found = get_close_matches(_plain(word)[:_LONGEST], plain, n=1, cutoff=_LIKENESS)
    return plain[found[0]] if found else None


def _plain(name: str) -> str:
    return name.lstrip("-").replace("_", "-").lower()
