"""Ranks that wait: what they do with an interrupt."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Put an interrupt off until a ``with`` block has ended; a second one comes through at once.

    A rank that waits is let go by those that train, when they have been interrupted too. If it left before, they would
    wait for it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.getsignal(signal.SIGINT)
    held: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        held.append(number)
        signal.signal(signal.SIGINT, previous)

    if not callable(previous):
        yield
        return
    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if held:
        signal.raise_signal(held[0])
