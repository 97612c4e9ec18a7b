"""NumPy on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mpiparallel.backend.attention.request import Attentions
from mpiparallel.backend.convolutions.request import Convolutions
from mpiparallel.backend.gpu.links import DeviceLinks
from mpiparallel.backend.products.pair_products import PairProducts
from mpiparallel.backend.products.product import Products
from mpiparallel.backend.protocol import Kernels, Stream

_BORDER = 64


class HostStream:
    """The stream of the host, and any point in it.

    Work is done when the call that gives it returns, so nobody ever has to wait.

    >>> with HostStream() as stream:
    ...     stream.wait_event(HostStream().record())
    >>> stream.synchronize()
    """

    done = True

    def __enter__(self) -> HostStream:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing: no other stream was left."""

    def record(self) -> HostStream:
        """Return the point that has been come to, which is always the last."""
        return self

    def wait_event(self, event: object) -> None:
        """Do nothing: what others were given is done."""

    def synchronize(self) -> None:
        """Do nothing: what was given is done."""


class NumpyBackend:
    """Arrays in host memory; host copies share memory where they can."""

    name = "cpu"
    array_module: Any = np
    kernels: Kernels | None = None
    products: Products = PairProducts()
    convolutions: Convolutions | None = None
    attention: Attentions | None = None
    is_asynchronous = False
    convolves_in_tf32 = False
    compute: Stream = HostStream()
    communication: Stream = HostStream()
    links: DeviceLinks | None = None

    def empty(self, byte_count: int, holder: str = "") -> np.ndarray[Any, Any]:
        """Return ``byte_count`` uninitialised bytes that start on a 64-byte border."""
        memory = np.empty(byte_count + _BORDER, np.uint8)
        offset = -memory.ctypes.data % _BORDER
        return memory[offset : offset + byte_count]

    def from_host(self, array: np.ndarray[Any, Any], holder: str = "") -> np.ndarray[Any, Any]:
        """Return a copy of ``array``."""
        return np.array(array, order="C")

    def to_host(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return ``array`` itself when it is in C order, else a copy that is."""
        return np.asarray(array, order="C")

    def host_array(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        """Return an uninitialised array."""
        return np.empty(shape, dtype)

    def copy_to_host(self, source: np.ndarray[Any, Any], target: np.ndarray[Any, Any]) -> None:
        """Overwrite ``target``."""
        np.copyto(target, source)

    def copy_from_host(self, source: np.ndarray[Any, Any], target: np.ndarray[Any, Any]) -> None:
        """Overwrite ``target`` unless it is ``source``."""
        if source is not target:
            np.copyto(target, source)

    def start_copy_from_host(self, source: np.ndarray[Any, Any], target: np.ndarray[Any, Any]) -> None:
        """Overwrite ``target``."""
        np.copyto(target, source)

    def start_copy_to_host(self, source: np.ndarray[Any, Any], target: np.ndarray[Any, Any]) -> None:
        """Overwrite ``target``."""
        np.copyto(target, source)

    def capture(self, work: Callable[[], object]) -> Callable[[], object]:
        """Return ``work``: the host has nothing to gain by recording it."""
        return work

    def address(self, array: np.ndarray[Any, Any]) -> int:
        """Return where the first element is in memory."""
        return int(array.ctypes.data)

    def synchronize(self) -> None:
        """Return at once: NumPy's calls end when their work is done."""
