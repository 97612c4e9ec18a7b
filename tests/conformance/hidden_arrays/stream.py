"""Copies to the device that have begun: until it is waited for, nobody may write to what they read."""

from __future__ import annotations

import threading
from typing import Any


class OverwrittenError(AssertionError):
    """Host memory that was written to while the device was still copying from it."""


class Stream(threading.local):
    """What one host thread has given its device to do."""

    def __init__(self) -> None:
        self._begun: list[tuple[Any, Any]] = []
        self.waits = 0

    def copies_from(self, source: Any) -> None:
        """Remember a copy that may still be going on."""
        self._begun.append((source, source.copy()))

    def synchronize(self) -> None:
        """Wait, and look whether what was copied is as it was."""
        self.waits += 1
        begun, self._begun = self._begun, []
        for source, given in begun:
            if source.tobytes() != given.tobytes():
                raise OverwrittenError(f"host memory of shape {source.shape} was overwritten before its copy had ended")


STREAM = Stream()
