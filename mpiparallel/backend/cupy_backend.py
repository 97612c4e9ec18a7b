"""CuPy on one CUDA device."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from mpiparallel.backend.attention.cudnn_attention import CudnnAttention
from mpiparallel.backend.attention.request import Attentions
from mpiparallel.backend.convolutions.cudnn_convolutions import CudnnConvolutions
from mpiparallel.backend.convolutions.request import Convolutions
from mpiparallel.backend.cuda_kernels import CudaKernels
from mpiparallel.backend.gpu.diagnosis import explained, gpu_problem
from mpiparallel.backend.gpu.ledger import DeviceLedger
from mpiparallel.backend.gpu.links import DeviceLinks
from mpiparallel.backend.gpu.rule import choose_device
from mpiparallel.backend.gpu.wait import before_waiting
from mpiparallel.backend.products.cublas_products import CublasProducts
from mpiparallel.backend.products.product import Products
from mpiparallel.backend.protocol import Kernels, Stream
from mpiparallel.errors import CaptureError, ConfigurationError, DeviceMemoryError

_STREAMS: Final[ContextVar[dict[int, tuple[Any, Any]]]] = ContextVar("device_streams")
"""The streams of each device that this thread has given work: all its programs work on the same arrays."""
_LEDGERS: Final[ContextVar[dict[int, DeviceLedger]]] = ContextVar("device_ledgers")


def _ledger(device: int) -> DeviceLedger:
    """Return what is known of a device's memory on this rank, whichever program has it."""
    known = _LEDGERS.get({})
    if device not in known:
        known = {**known, device: DeviceLedger()}
        _LEDGERS.set(known)
    return known[device]


def _streams(cupy: Any, device: int) -> tuple[Any, Any]:
    """Return the streams of a device for computing and for communication, which wait for no other's."""
    known = _STREAMS.get({})
    if device not in known:
        made = (cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True))
        known = {**known, device: made}
        _STREAMS.set(known)
    return known[device]


def _refuse_memory(_byte_count: int) -> Any:
    """Stand for CuPy's pool while work is recorded: what it gave would be others' when the work is done again."""
    raise CaptureError("allocates memory in each run")


class CupyBackend:
    """Arrays on the GPU that the rank takes (``gpu.rule``), or on GPU ``device_id`` of those that it sees.

    With ``allows_tf32`` products of float32 are made of factors that are rounded to 10 bits of fraction, with
    ``convolves_in_tf32`` convolutions.
    """

    name = "gpu"
    is_asynchronous = True

    def __init__(
        self, device_id: int | None = None, allows_tf32: bool = False, convolves_in_tf32: bool = False
    ) -> None:
        problem = gpu_problem()
        if problem:
            raise ConfigurationError(problem)
        import cupy

        choice = choose_device(os.environ, cupy.cuda.runtime.getDeviceCount(), device_id)
        self.array_module: Any = cupy
        self.convolves_in_tf32 = convolves_in_tf32
        self.links: DeviceLinks | None = DeviceLinks(cupy.cuda, choice.number)
        self._ledger = _ledger(choice.number)
        self._captures = False
        self.compute: Stream
        self.communication: Stream
        try:
            device = cupy.cuda.Device(choice.number)
            device.use()
            self.compute, self.communication = streams = _streams(cupy, choice.number)
        except RuntimeError as error:
            raise ConfigurationError(
                f"GPU {choice.number} cannot be used ({choice.why}): {explained(error)}"
            ) from error
        streams[0].use()
        self.kernels: Kernels | None = CudaKernels(
            cupy.cuda.function.Module, f"sm_{device.compute_capability}", self.from_host
        )
        self.products: Products = CublasProducts(self.address, self.stream_number, allows_tf32)
        self.convolutions: Convolutions | None = CudnnConvolutions(self.address, self.stream_number, self.seconds)
        self.attention: Attentions | None = CudnnAttention(self.address, self.stream_number)

    def empty(self, byte_count: int, holder: str = "") -> Any:
        """Return ``byte_count`` uninitialised bytes; CuPy's pool aligns them to 512."""
        self._must_not_capture("allocates memory")
        with self._room_for(byte_count, holder):
            made = self.array_module.empty(byte_count, np.uint8)
        self._ledger.note(made, holder)
        return made

    def from_host(self, array: np.ndarray[Any, Any], holder: str = "") -> Any:
        """Return a device copy of ``array``."""
        self._must_not_capture("copies from the host")
        with self._room_for(array.nbytes, holder):
            made = self.array_module.asarray(array, order="C")
        self._ledger.note(made, holder)
        return made

    @contextmanager
    def _room_for(self, byte_count: int, holder: str) -> Iterator[None]:
        try:
            yield
        except MemoryError as error:
            free, total = self.array_module.cuda.runtime.memGetInfo()
            # What CuPy keeps for later it would have given.
            told = self._ledger.out_of_memory(byte_count, holder, free, total)
            raise DeviceMemoryError(told) from error

    def to_host(self, array: Any) -> np.ndarray[Any, Any]:
        """Return a host copy of ``array``."""
        self._must_not_capture("reads the device's memory on the host")
        before_waiting()
        return np.asarray(self.array_module.asnumpy(array), order="C")

    def host_array(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        """Return pinned memory: the device copies from and to it without a detour through the driver's own."""
        self._must_not_capture("allocates memory")
        wanted = np.dtype(dtype)
        count = prod(shape)
        memory = self.array_module.cuda.alloc_pinned_memory(max(count * wanted.itemsize, 1))
        return np.frombuffer(memory, wanted, count).reshape(shape)

    def copy_to_host(self, source: Any, target: np.ndarray[Any, Any]) -> None:
        """Overwrite ``target``, and wait until that is done."""
        self._must_not_capture("copies to the host")
        before_waiting()
        self.array_module.ascontiguousarray(source).get(out=target)

    def copy_from_host(self, source: np.ndarray[Any, Any], target: Any) -> None:
        """Overwrite ``target`` with a host array, which may be written to again at once."""
        self._must_not_capture("copies from the host")
        target[...] = self.array_module.asarray(source, blocking=True)

    def start_copy_from_host(self, source: np.ndarray[Any, Any], target: Any) -> None:
        """Give the current stream a copy from pinned memory."""
        self._must_not_capture("copies from the host")
        target.set(source)

    def start_copy_to_host(self, source: Any, target: np.ndarray[Any, Any]) -> None:
        """Give the current stream a copy to pinned memory."""
        self._must_not_capture("copies to the host")
        source.get(out=target, blocking=False)

    def capture(self, work: Callable[[], object]) -> Callable[[], object]:
        """Return the launch of a CUDA graph of what ``work`` gives the device."""
        cuda, stream = self.array_module.cuda, self.compute
        self._captures = True
        try:
            with stream, cuda.using_allocator(_refuse_memory):
                graph = self._recorded(work, stream, cuda.runtime.streamCaptureModeThreadLocal)
        finally:
            self._captures = False
        return partial(graph.launch, stream)

    @staticmethod
    def _recorded(work: Callable[[], object], stream: Any, mode: int) -> Any:
        stream.begin_capture(mode)
        try:
            work()
        except BaseException:
            # CUDA may refuse to end it in order: what has gone wrong before says more.
            with suppress(Exception):
                stream.end_capture()
            raise
        return stream.end_capture()

    def _must_not_capture(self, what: str) -> None:
        if self._captures:
            raise CaptureError(f"{what} in each run")

    def seconds(self, work: Callable[[], object]) -> float:
        """Return how long the device takes for what ``work`` gives the current stream; the host waits for it."""
        self._must_not_capture("is timed")
        before_waiting()
        first, last = (self.array_module.cuda.Event() for _ in range(2))
        first.record()
        work()
        last.record()
        last.synchronize()
        return float(self.array_module.cuda.get_elapsed_time(first, last)) / 1e3

    def address(self, array: Any) -> int:
        """Return where the first element is in the device's memory."""
        return int(array.data.ptr)

    def stream_number(self) -> int:
        """Return the current stream as libraries are told of it."""
        return int(self.array_module.cuda.get_current_stream().ptr)

    def synchronize(self) -> None:
        """Wait for the current stream."""
        self._must_not_capture("waits for the device")
        before_waiting()
        self.array_module.cuda.get_current_stream().synchronize()
