"""How far work on files has come."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]


class Meter:
    """Tells ``progress`` how many bytes are done and how many there are in all.

    >>> meter = Meter(10, lambda done, total: print(f"{done} of {total}"))
    >>> meter.add(4)
    4 of 10
    """

    def __init__(self, total: int, progress: Progress | None = None) -> None:
        self._done, self._total = 0, total
        self._progress = progress

    def add(self, count: int) -> None:
        """Count bytes that are done."""
        # What a manifest says of a file may be less than what is there.
        self._done = min(self._done + count, self._total)
        if self._progress is not None:
            self._progress(self._done, self._total)
