"""What is to follow a failure: nothing, or the job again, or ranks that go on without the dead."""

from __future__ import annotations

from dataclasses import replace

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import LaunchError

_DEFAULT_RESTARTS = 3
_MOST_RESTARTS = 1_000_000
ABORT, RESTART, SHRINK = "abort", "restart", "shrink"


@dataclass(frozen=True)
class OnFailure:
    """What is done when a job fails: ``abort``, ``restart`` it up to ``restarts`` times, or first ``shrink``."""

    kind: str = ABORT
    restarts: int = 0

    @classmethod
    def parse(cls, text: str) -> OnFailure:
        """Return what ``text`` names; raise LaunchError if that is nothing.

        >>> OnFailure.parse("restart:5")
        OnFailure(kind='restart', restarts=5)
        """
        kind, colon, number = text.partition(":")
        is_number = number.isascii() and number.isdigit() and 0 < int(number[:9]) <= _MOST_RESTARTS
        if kind not in (ABORT, RESTART, SHRINK) or (colon and (kind == ABORT or not is_number)):
            raise LaunchError(f'--on-failure "{text}": give abort, restart, restart:5 for five times, or shrink')
        if kind == ABORT:
            return cls()
        return cls(kind, int(number) if colon else _DEFAULT_RESTARTS)

    def without_shrinking(self) -> OnFailure:
        """Return what is done where ranks cannot go on without the dead."""
        return replace(self, kind=RESTART)
