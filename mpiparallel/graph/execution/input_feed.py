"""What a program is fed, brought to where its kernels read it, beside the run before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array, Backend, Event

HostArrays = Sequence[np.ndarray[Any, Any]]


def input_feed(backend: Backend, targets: Sequence[Array]) -> Callable[[HostArrays], None]:
    """Return what sets the targets to host arrays of their shapes, which may be written to again at once.

    >>> from mpiparallel.backend.numpy_backend import NumpyBackend
    >>> target = np.zeros(2)
    >>> input_feed(NumpyBackend(), [target])([np.ones(2)])
    >>> target.tolist()
    [1.0, 1.0]
    """
    if not backend.is_asynchronous:
        return _DirectFeed(backend, targets).bring
    slots = cycle([_Slot(backend, targets), _Slot(backend, targets)])
    return lambda arrays: next(slots).bring(arrays)


class _DirectFeed:
    def __init__(self, backend: Backend, targets: Sequence[Array]) -> None:
        self._copy = backend.copy_from_host
        self._targets = targets

    def bring(self, arrays: HostArrays) -> None:
        for array, target in zip(arrays, self._targets, strict=True):
            self._copy(array, target)


class _Slot:
    """Memory through which every second run is fed: while a run reads its inputs, those of the next are on their way.

    The host's array goes to pinned memory, from there to the device beside the run before, and to its place after it.
    """

    def __init__(self, backend: Backend, targets: Sequence[Array]) -> None:
        self._backend = backend
        self._targets = targets
        self._staged = [backend.host_array(one.shape, one.dtype) for one in targets]
        self._landed = [backend.empty(one.nbytes).view(one.dtype).reshape(one.shape) for one in targets]
        self._arrived: Event | None = None
        self._taken = backend.compute.record()

    def bring(self, arrays: HostArrays) -> None:
        """Set the targets."""
        compute, beside = self._backend.compute, self._backend.communication
        if self._arrived is not None:
            self._arrived.synchronize()
        for array, staged in zip(arrays, self._staged, strict=True):
            np.copyto(staged, array)
        beside.wait_event(self._taken)
        with beside:
            for staged, landed in zip(self._staged, self._landed, strict=True):
                self._backend.start_copy_from_host(staged, landed)
        self._arrived = beside.record()
        compute.wait_event(self._arrived)
        for landed, target in zip(self._landed, self._targets, strict=True):
            self._backend.array_module.copyto(target, landed)
        self._taken = compute.record()
