"""Output that could not be written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mpiparallel.dataclass import dataclass

_LONGEST_REASON = 200


@dataclass
class LostOutput:
    """How many bytes of an output could not be written, and why the first of them could not.

    >>> loss = LostOutput()
    >>> loss.add(2000, OSError(28, "No space left on device"))
    >>> str(loss)
    '2,000 bytes (No space left on device)'
    """

    size: int = 0
    reason: str = ""

    def __bool__(self) -> bool:
        """Return whether anything is lost."""
        return self.size > 0

    def __str__(self) -> str:
        """Say how much is lost, and why."""
        return f"{self.size:,} bytes ({self.reason})"

    def add(self, size: int, error: Exception | None = None) -> None:
        """Count ``size`` bytes more, which ``error`` kept from being written."""
        self.size += size
        self.reason = self.reason or getattr(error, "strerror", None) or str(error or "")

    @classmethod
    def parsed(cls, fields: object) -> LostOutput:
        """Return the loss that ``fields`` describe; none where they describe none.

        >>> LostOutput.parsed({"size": 1, "reason": "full"}), LostOutput.parsed("nonsense")
        (LostOutput(size=1, reason='full'), LostOutput(size=0, reason=''))
        """
        told: Mapping[Any, Any] = fields if isinstance(fields, dict) else {}
        size, reason = told.get("size"), told.get("reason")
        if not (isinstance(size, int) and isinstance(reason, str) and size > 0):
            return cls()
        return cls(size, reason[:_LONGEST_REASON])


def lost_in_words(loss: LostOutput, folder: Path) -> str:
    """Say that ``loss`` is what could not be written to the logs in ``folder``, and what to do about it."""
    return f"{loss} of output are lost, as {folder} took no more; make room there, or give another --log-dir"
