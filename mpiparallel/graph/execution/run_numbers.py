"""Numbers that are others in each run of a program, in the device's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from mpiparallel.backend.protocol import Array, Backend, Event

_WORDS: Final = 512
"""Numbers that come in one copy."""


class RunNumbers:
    """Where kernels read what changes from run to run, such as random keys, so that none is bound to one value.

    >>> from mpiparallel.backend.numpy_backend import NumpyBackend
    >>> steps = iter([7, 8])
    >>> numbers = RunNumbers(NumpyBackend())
    >>> key = numbers.add(lambda: next(steps))
    >>> [(numbers.bring(), int(key[0]))[1] for _ in range(2)]
    [7, 8]
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._numbers: list[Callable[[], int]] = []
        self._staged: list[np.ndarray[Any, Any]] = []
        self._held: list[Array] = []
        self._copied: Event | None = None

    def add(self, number: Callable[[], int]) -> Array:
        """Return a uint64 array of one element that has in each run what ``number`` returns as it begins."""
        block, word = divmod(len(self._numbers), _WORDS)
        if not word:
            self._staged.append(self._backend.host_array((_WORDS,), np.uint64))
            self._staged[block].fill(0)
            self._held.append(self._backend.from_host(np.zeros(_WORDS, np.uint64)))
        self._numbers.append(number)
        return self._held[block][word : word + 1]

    def bring(self) -> None:
        """Give the device the numbers of a run that begins."""
        if not self._numbers:
            return
        if self._copied is not None:
            self._copied.synchronize()
        for place, number in enumerate(self._numbers):
            self._staged[place // _WORDS][place % _WORDS] = number()
        for staged, held in zip(self._staged, self._held, strict=True):
            self._backend.start_copy_from_host(staged, held)
        self._copied = self._backend.compute.record()
