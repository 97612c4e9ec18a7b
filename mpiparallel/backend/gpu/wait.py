"""What is done before the host waits for a device: somebody may know that the device will never come."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

_WATCHES: Final[ContextVar[tuple[Callable[[], None], ...]]] = ContextVar("device_watches", default=())
"""Of this rank: it stands for all arrays of its device, whichever program they belong to."""


def watch_device(watch: Callable[[], None]) -> None:
    """Let ``watch`` be called on this rank each time before it waits for its device; it may raise.

    >>> watch_device(lambda: print("looks"))
    >>> before_waiting()
    looks
    >>> forget_watches()
    """
    _WATCHES.set((*_WATCHES.get(), watch))


def before_waiting() -> None:
    """Call all watches, the first first."""
    for watch in _WATCHES.get():
        watch()


def forget_watches() -> None:
    """Let nobody watch any more."""
    _WATCHES.set(())
