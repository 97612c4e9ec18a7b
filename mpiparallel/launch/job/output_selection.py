"""Whose output is shown while a job runs."""

from __future__ import annotations

import re

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import LaunchError

_RANKS = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7}))?")


@dataclass(frozen=True)
class OutputSelection:
    """Whose output is shown live, and whether each line says whose it is."""

    ranks: tuple[int, ...] = (0,)
    is_prefixed: bool = False

    @classmethod
    def parse(cls, text: str, size: int) -> OutputSelection:
        """Return the ranks that ``text`` lists, of ``size``. Raises LaunchError for what is no list of them.

        >>> OutputSelection.parse("0,3-5", 8).ranks
        (0, 3, 4, 5)
        """
        ranks: set[int] = set()
        for part in text.split(","):
            found = _RANKS.fullmatch(part.strip())
            first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
            if not first <= last < size:
                raise LaunchError(f'--tee-ranks {text}: "{part}" names no ranks of 0 to {size - 1}; give 0,3-5')
            ranks.update(range(first, last + 1))
        return cls(tuple(sorted(ranks)), True)
