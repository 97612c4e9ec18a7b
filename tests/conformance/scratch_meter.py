"""Measures how much scratch memory each thread rank holds at most for a reshard."""

from __future__ import annotations

import sys
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from mpiparallel.reshard import memory


@contextmanager
def measured_scratch() -> Iterator[Counter[str]]:
    """Yield the most bytes of scratch memory that each thread has held at one time, by the name of the thread."""
    held: Counter[str] = Counter()
    most: Counter[str] = Counter()
    allocate = memory.allocate

    def counted(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        array = allocate(shape, dtype)
        # Targets are asked for by the module itself, and are no scratch.
        if sys._getframe(1).f_globals is not vars(memory):
            rank = threading.current_thread().name
            held[rank] += array.nbytes
            most[rank] = max(most[rank], held[rank])
            weakref.finalize(array, held.subtract, {rank: array.nbytes})
        return array

    with mock.patch.object(memory, "allocate", counted):
        yield most
