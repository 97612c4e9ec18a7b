"""A pause of Python's cyclic garbage collector, where many objects without cycles are made at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


@contextmanager
def collector_paused(asks_once: bool = True) -> Iterator[None]:
    """Let no collection run in a ``with`` block, nor one of what was made in it right after: each would walk over all.

    What was made counts as old at once, as if collections had passed it by. Threads may pause the collector at once:
    each leaves it running that found it running. What a program had frozen before the first pause stays frozen; with
    ``asks_once`` False, what it had frozen before this one.

    >>> with collector_paused():
    ...     gc.isenabled()
    False
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            if not (_has_frozen() if asks_once else gc.get_freeze_count()):
                gc.freeze()
                gc.unfreeze()
            gc.enable()


@cache
def _has_frozen() -> bool:
    # Asked once: to count walks over all that is frozen, which may be all that a program has loaded.
    return bool(gc.get_freeze_count())
