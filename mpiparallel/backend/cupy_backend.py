"""CuPy on one CUDA device."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from mpiparallel.backend.cuda_kernels import CudaKernels
from mpiparallel.backend.protocol import Kernels
from mpiparallel.errors import ConfigurationError


def gpu_problem() -> str | None:
    """Return why this process cannot compute on a GPU, and what to do about it; None where it can."""
    try:
        import cupy  # an optional extra, and slow to import: only when a GPU is asked for
    except ImportError:
        return (
            "device_target='GPU' needs CuPy, which is not to be had; pip install 'mpiparallel[cuda12x]' (or cuda13x), "
            "or set device_target='CPU'"
        )
    if not cupy.cuda.is_available():
        return "device_target='GPU', but CuPy finds no CUDA device on this machine; set device_target='CPU'"
    return None


class CupyBackend:
    """Arrays in the memory of CUDA device ``device_id``; host copies go through the host's memory."""

    name = "gpu"

    def __init__(self, device_id: int = 0) -> None:
        problem = gpu_problem()
        if problem:
            raise ConfigurationError(problem)
        import cupy

        device = cupy.cuda.Device(device_id % cupy.cuda.runtime.getDeviceCount())
        device.use()
        self.array_module: Any = cupy
        self.kernels: Kernels | None = CudaKernels(
            cupy.cuda.function.Module, f"sm_{device.compute_capability}", self.from_host
        )

    def empty(self, byte_count: int) -> Any:
        """Return ``byte_count`` uninitialised bytes; CuPy's pool aligns them to 512."""
        return self.array_module.empty(byte_count, np.uint8)

    def from_host(self, array: np.ndarray[Any, Any]) -> Any:
        """Return a device copy of ``array``."""
        return self.array_module.asarray(array, order="C")

    def to_host(self, array: Any) -> np.ndarray[Any, Any]:
        """Return a host copy of ``array``."""
        return np.asarray(self.array_module.asnumpy(array), order="C")

    def host_array(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        """Return pinned memory: the device copies from and to it without a detour through the driver's own."""
        wanted = np.dtype(dtype)
        count = prod(shape)
        memory = self.array_module.cuda.alloc_pinned_memory(max(count * wanted.itemsize, 1))
        return np.frombuffer(memory, wanted, count).reshape(shape)

    def copy_to_host(self, source: Any, target: np.ndarray[Any, Any]) -> None:
        """Overwrite ``target``, and wait until that is done."""
        self.array_module.ascontiguousarray(source).get(out=target)

    def copy_from_host(self, source: np.ndarray[Any, Any], target: Any) -> None:
        """Overwrite ``target`` with a host array, which may be written to again at once."""
        target[...] = self.array_module.asarray(source, blocking=True)

    def address(self, array: Any) -> int:
        """Return where the first element is in the device's memory."""
        return int(array.data.ptr)

    def synchronize(self) -> None:
        """Wait for the current stream."""
        self.array_module.cuda.get_current_stream().synchronize()
