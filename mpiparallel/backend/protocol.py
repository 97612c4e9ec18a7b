"""What the rest of the package asks of an array library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Array = Any
"""An array of the backend: ``numpy.ndarray`` or ``cupy.ndarray``."""


@dataclass(frozen=True, eq=False)
class AddressTable:
    """Arrays of which a kernel is given the addresses, one after another, in the device's memory."""

    arrays: tuple[Array, ...]


class Kernels(Protocol):
    """What compiles CUDA texts for a device, each once."""

    def bind(self, name: str, text: str, blocks: int, threads: int, arguments: tuple[Any, ...]) -> Callable[[], object]:
        """Return a launch of the function ``name`` of a text; arguments are arrays, tables, NumPy's numbers."""


class Backend(Protocol):
    """One array library on one device.

    ``array_module`` has NumPy's names. Host arrays are ``numpy.ndarray`` in C order; MPI moves only those. ``kernels``
    is None where the device runs no CUDA texts.
    """

    name: str
    array_module: Any
    kernels: Kernels | None

    def empty(self, byte_count: int) -> Array:
        """Return ``byte_count`` bytes of uninitialised memory as a 1-D uint8 array that starts on a 64-byte border."""

    def from_host(self, array: np.ndarray[Any, Any]) -> Array:
        """Return a device array equal to a host array."""

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        """Return a C-ordered host array equal to a device array; it may share memory with it."""

    def host_array(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        """Return uninitialised host memory in which device arrays are staged for MPI."""

    def copy_to_host(self, source: Array, target: np.ndarray[Any, Any]) -> None:
        """Overwrite a host array in C order with a device array of its shape and dtype."""

    def copy_from_host(self, source: np.ndarray[Any, Any], target: Array) -> None:
        """Overwrite a device array with a host array of its shape and dtype."""

    def address(self, array: Array) -> int:
        """Return where the first element of an array is in the device's memory."""

    def synchronize(self) -> None:
        """Wait until all work given to the device is done."""
