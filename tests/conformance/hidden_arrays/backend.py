"""CuPy's backend on the library that hides its arrays: the code that runs on GPUs, without one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.backend import cupy_backend
from mpiparallel.backend.cupy_backend import CupyBackend
from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.backend.products import cublas_products
from mpiparallel.backend.products.cublas_lt import CublasLt
from mpiparallel.backend.products.cublas_products import CublasProducts
from mpiparallel.backend.protocol import AddressTable
from mpiparallel.communication.transport.staged import PinnedSlots
from mpiparallel.compile import bind
from mpiparallel.train.elastic import resharding
from tests.conformance.hidden_arrays.array import hidden_of
from tests.conformance.hidden_arrays.cublas_lt import NEEDED, FakeCublasLt
from tests.conformance.hidden_arrays.library import hidden_library, shared_gpu
from tests.conformance.hidden_arrays.nccl import hidden_nccl
from tests.conformance.hidden_arrays.stream import DEVICE

_SLOT_BYTES = 1 << 16
"""As much travels at once between devices that are not there."""


def install(
    patch: pytest.MonkeyPatch,
    kernels: Any = None,
    targets: Sequence[str] = ("GPU",),
    uuid: Callable[[], bytes] = shared_gpu,
    folder: Path | None = None,
) -> None:
    """Let ``cupy`` be the hidden library, and backends of a GPU compile their texts by ``kernels``, or none.

    ``targets`` are those of which the device is one; ``uuid`` numbers the devices, which talk by NCCL in a ``folder``.
    """

    def make(configuration: Any) -> Any:
        if configuration.device_target not in targets:
            return NumpyBackend()
        return hidden_backend(kernels, configuration.allows_tf32)

    DEVICE.reset()
    patch.setattr(PinnedSlots.__init__, "__defaults__", (_SLOT_BYTES,))
    patch.setattr(cublas_products, "WORKSPACE", NEEDED)
    patch.setattr(cupy_backend, "_STREAMS", ContextVar("device_streams"))
    patch.setitem(sys.modules, "cupy", hidden_library(uuid))
    patch.setitem(sys.modules, "cupy.cuda.nccl", hidden_nccl(folder))
    for module in (bind, resharding):
        patch.setattr(module, "make_backend", make)


def hidden_backend(kernels: Any = None, allows_tf32: bool = False) -> CupyBackend:
    """Return a backend; ``install`` comes before."""
    made = CupyBackend()
    made.kernels = None if kernels is None else RecordedKernels(kernels)
    library = FakeCublasLt()
    made.convolutions = None
    made.attention = None
    made.products = CublasProducts(library.address, made.stream_number, allows_tf32, partial(CublasLt, library))
    return made


class RecordedKernels:
    """Kernels of which the launches are recorded with all else that a stream is given."""

    def __init__(self, kernels: Any) -> None:
        self._kernels = kernels

    def bind(self, name: str, text: str, blocks: int, threads: int, arguments: tuple[Any, ...]) -> Any:
        """Return a launch; a kernel may write to all its arrays."""
        launch = self._kernels.bind(name, text, blocks, threads, arguments)
        tables = [one.arrays if isinstance(one, AddressTable) else one for one in arguments]
        arrays = hidden_of(tables)
        return lambda: DEVICE.perform(launch, arrays, arrays, (name, arguments))
