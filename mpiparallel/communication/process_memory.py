"""Reading the memory of another process of this host, strided on both sides, in one pass (Linux, process_vm_readv)."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mpiparallel.errors import CommunicationError

Rows = NDArray[np.uint64]
"""One row a line: where it is, and its length in bytes."""

_MOST_ROWS: Final = 1024
# Linux moves less than 2 GiB in one call.
_MOST_BYTES: Final = 1 << 30
_SET_PTRACER: Final = 0x59616D61
_ANY_PROCESS: Final = -1


def open_to_readers() -> None:
    """Let other processes of this user read the memory of this one, where Linux would let only its parents (Yama)."""
    if hasattr(_SYSTEM, "prctl"):
        _SYSTEM.prctl(_SET_PTRACER, _ANY_PROCESS, 0, 0, 0)


def read(process: int, pairs: Iterable[tuple[Rows, Rows]]) -> None:
    """Fill rows of this process from rows of another; the first of each pair are here, the second there, equally long.

    Raises CommunicationError where the system does not allow it, or the other process is gone.
    """
    for here, there in pairs:
        for first in range(0, len(here), _MOST_ROWS):
            _read(process, here[first : first + _MOST_ROWS], there[first : first + _MOST_ROWS])


def _read(process: int, here: Rows, there: Rows) -> None:
    expected = int(here[:, 1].sum())
    ends = (here.ctypes.data, len(here), there.ctypes.data, len(there))
    found = _SYSTEM.process_vm_readv(process, *ends, 0) if hasattr(_SYSTEM, "process_vm_readv") else -1
    if found != expected:
        code = ctypes.get_errno()
        raise CommunicationError(
            f"the memory of process {process} cannot be read: {os.strerror(code) if found < 0 else 'only in part'}; take "
            "another executor than 'attached'"
        )


def row_pairs(
    shape: tuple[int, ...], itemsize: int, here: tuple[int, tuple[int, ...]], there: tuple[int, tuple[int, ...]]
) -> Iterator[tuple[Rows, Rows]]:
    """Yield the rows of two arrays of one shape, side by side, each given by its address and its strides in bytes.

    A row is what lies in one piece on both sides. They come in portions, so that they need little memory.

    >>> [(here, there)] = row_pairs((2, 3), 4, (0, (12, 4)), (100, (40, 4)))
    >>> here.tolist(), there.tolist()
    ([[0, 12], [12, 12]], [[100, 12], [140, 12]])
    """
    outer, length = _common_row(shape, itemsize, here[1], there[1])
    for first, size in _portions(length):
        for start in range(0, prod(shape[:outer]), _MOST_ROWS):
            index = np.arange(start, min(start + _MOST_ROWS, prod(shape[:outer])), dtype=np.int64)
            yield (
                _rows(index, shape[:outer], here[0] + first, here[1], size),
                _rows(index, shape[:outer], there[0] + first, there[1], size),
            )


def _common_row(shape: tuple[int, ...], itemsize: int, *strides: tuple[int, ...]) -> tuple[int, int]:
    """Return how many dims are outside a row, and its length."""
    outer, length = len(shape), itemsize
    while outer and (shape[outer - 1] == 1 or all(side[outer - 1] == length for side in strides)):
        outer -= 1
        length *= shape[outer]
    return outer, length


def _portions(length: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a row, so short that a call can hold as many of them as it may."""
    most = max(1, _MOST_BYTES // _MOST_ROWS) if length > _MOST_BYTES // _MOST_ROWS else length
    for first in range(0, length, most):
        yield first, min(most, length - first)


def _rows(index: NDArray[np.int64], shape: tuple[int, ...], address: int, strides: tuple[int, ...], size: int) -> Rows:
    starts = np.full(index.shape, address, np.int64)
    for extent, stride in zip(reversed(shape), reversed(strides[: len(shape)]), strict=True):
        index, place = np.divmod(index, extent)
        starts += place * stride
    rows = np.empty((len(starts), 2), np.uint64)
    rows[:, 0], rows[:, 1] = starts, size
    return rows


def _system() -> ctypes.CDLL:
    system = ctypes.CDLL(None, use_errno=True)
    if hasattr(system, "process_vm_readv"):
        rows, count = ctypes.c_void_p, ctypes.c_ulong
        system.process_vm_readv.restype = ctypes.c_ssize_t
        system.process_vm_readv.argtypes = (ctypes.c_int, rows, count, rows, count, count)
    if hasattr(system, "prctl"):
        system.prctl.argtypes = (ctypes.c_int, *[ctypes.c_long] * 4)
    return system


_SYSTEM = _system()
