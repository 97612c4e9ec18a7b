"""Memory that a process has freed, given back to the system.

The C library keeps what is freed for what will be allocated next. Where a state has moved away, nothing will be.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


def give_back_freed_memory() -> bool:
    """Give what this process has freed back to the system, and return whether the C library can: glibc can.

    >>> give_back_freed_memory() in (True, False)
    True
    """
    trim = _trim()
    if trim is None:
        return False
    trim(0)
    return True


@cache
def _trim() -> Callable[[int], object] | None:
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):
        return None
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    found: Callable[[int], object] = trim
    return found
