"""Signals by their names."""

from __future__ import annotations

import signal


def name_of(number: int) -> str:
    """Return what to call signal ``number``.

    >>> name_of(9), name_of(63)
    ('SIGKILL', 'signal 63')
    """
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
