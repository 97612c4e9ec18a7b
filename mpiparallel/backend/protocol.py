"""What the rest of the package asks of an array library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from mpiparallel.backend.attention.request import Attentions
from mpiparallel.backend.convolutions.request import Convolutions
from mpiparallel.backend.gpu.links import DeviceLinks
from mpiparallel.backend.products.product import Products
from mpiparallel.dataclass import dataclass

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


class Event(Protocol):
    """A point in the work of a stream; ``done`` says whether the device has come there."""

    @property
    def done(self) -> bool: ...

    def synchronize(self) -> None:
        """Let the host wait until the device has come there."""


class Stream(Protocol):
    """Work of a device, done in the order in which it is given; that of other streams goes on beside it.

    ``with stream:`` gives it what array library and kernels do within.
    """

    def __enter__(self) -> object: ...

    def __exit__(self, *error: object) -> object: ...

    def record(self) -> Event:
        """Return the point after all work that has been given so far."""

    def wait_event(self, event: Any) -> None:
        """Let all work that is given from now on wait, on the device, until another stream has come to a point."""

    def synchronize(self) -> None:
        """Let the host wait until all work is done."""


class Backend(Protocol):
    """One array library on one device.

    ``array_module`` has NumPy's names. Host arrays are ``numpy.ndarray`` in C order; MPI moves only those. ``kernels``
    is None where the device runs no CUDA texts. ``products`` multiply what the array library cannot, or is slower at.
    ``convolutions`` and ``attention`` are those of a library, None where there is none. ``is_asynchronous`` says that
    the device works while the host goes on. Work that is given to no other stream belongs to ``compute``; what is moved
    meanwhile belongs to ``communication``. ``links`` are None where arrays are in the memory of the host. With
    ``convolves_in_tf32`` convolutions of float32 may round their factors to 10 bits of fraction.
    """

    name: str
    array_module: Any
    kernels: Kernels | None
    products: Products
    convolutions: Convolutions | None
    attention: Attentions | None
    is_asynchronous: bool
    convolves_in_tf32: bool
    compute: Stream
    communication: Stream
    links: DeviceLinks | None

    def empty(self, byte_count: int, holder: str = "") -> Array:
        """Return ``byte_count`` bytes of uninitialised memory as a 1-D uint8 array that starts on a 64-byte border.

        ``holder`` is what they are for. Raises DeviceMemoryError, which tells who holds most, where there are no more.
        """

    def from_host(self, array: np.ndarray[Any, Any], holder: str = "") -> Array:
        """Return a device array equal to a host array, for ``holder``, as ``empty`` has it."""

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        """Return a C-ordered host array equal to a device array; it may share memory with it."""

    def host_array(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        """Return uninitialised host memory in which device arrays are staged for MPI."""

    def copy_to_host(self, source: Array, target: np.ndarray[Any, Any]) -> None:
        """Overwrite a host array in C order with a device array of its shape and dtype."""

    def copy_from_host(self, source: np.ndarray[Any, Any], target: Array) -> None:
        """Overwrite a device array with a host array of its shape and dtype."""

    def start_copy_from_host(self, source: np.ndarray[Any, Any], target: Array) -> None:
        """Give the current stream the copy of a ``host_array`` to a device array in C order, of one shape and dtype.

        The host array may be written to again when the stream has done it.
        """

    def start_copy_to_host(self, source: Array, target: np.ndarray[Any, Any]) -> None:
        """Give the current stream the copy of a device array in C order to a ``host_array`` of its shape and dtype.

        The host array holds it when the stream has done it.
        """

    def capture(self, work: Callable[[], object]) -> Callable[[], object]:
        """Return what gives the compute stream, in one call, all that ``work`` gives it; nothing of it is done yet.

        What ``work`` reads is read anew each time, from the device's memory; what Python does in it is done now, and
        never again. Raises CaptureError where it waits for the device, copies from or to the host, or allocates. On
        a device that is not asynchronous it is ``work`` itself.
        """

    def address(self, array: Array) -> int:
        """Return where the first element of an array is in the device's memory."""

    def synchronize(self) -> None:
        """Wait until all work given to the device is done."""
