"""How long a search may take."""

from __future__ import annotations

import time
from math import inf


class TimeOverError(Exception):
    """The search has no more time; who asked goes on with the best that it has."""


class Clock:
    """Counts the seconds of a search from when it is made."""

    def __init__(self, seconds: float = inf) -> None:
        self._end = time.monotonic() + seconds

    def has_time(self) -> bool:
        """Return whether time is left."""
        return time.monotonic() < self._end

    @property
    def seconds_left(self) -> float:
        """How many seconds are left."""
        return self._end - time.monotonic()

    def check(self) -> None:
        """Raise TimeOverError where no time is left."""
        if not self.has_time():
            raise TimeOverError
