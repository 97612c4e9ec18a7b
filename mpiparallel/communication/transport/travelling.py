"""What of a reduction between devices is on its way, in memory that is taken once: a graph may have it in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array, Backend
from mpiparallel.communication.transport.device_wire import DeviceWire


class Travelling:
    """The elements of a reduction of ``count``, as ``wire`` has it, from where they are to where the result lands.

    That is ``landing``, or where they are. Elements that travel as they are need no memory.
    """

    def __init__(self, wire: DeviceWire, backend: Backend, count: int, landing: Array = None) -> None:
        self._wire = wire
        self._xp = backend.array_module
        self._lands = landing
        self.array: Array = None
        self._codes: Array = None
        if wire.is_plain:
            return

        def new(dtype: Any) -> Array:
            return backend.empty(count * np.dtype(dtype).itemsize, "a reduction on its way").view(dtype)

        self.array = new(wire.dtype)
        if wire.is_ordered:
            self._codes = self.array if wire.narrow == wire.dtype else new(wire.narrow)
            self._is_nan = new(np.bool_)

    @property
    def landing(self) -> Array:
        """Where the result comes."""
        return self.array if self._lands is None else self._lands

    def pack(self, view: Array) -> None:
        """Take what is to travel from a one-dimensional array."""
        if self._wire.is_plain:
            self.array = self._wire.seen(view)
            return
        if self._codes is None:
            self._xp.copyto(self.array, view)
            return
        self._order(view.view(self._wire.narrow), self._codes)
        self._xp.isnan(view, out=self._is_nan)
        self._xp.copyto(self._codes, self._wire.nan_code, where=self._is_nan)
        if self._codes is not self.array:
            self._xp.copyto(self.array, self._codes)

    def unpack(self, view: Array) -> None:
        """Put the result into a one-dimensional array, unless it lies there."""
        if self._wire.is_plain:
            return
        if self._codes is None:
            view[...] = self.landing
            return
        codes = self._codes[: view.size]
        if self._lands is not None or self._codes is not self.array:
            codes[...] = self.landing
        self._order(codes, view.view(self._wire.narrow))

    def _order(self, bits: Array, target: Array) -> None:
        """Map the bits of floats to integers of the same order, or back."""
        limits = np.iinfo(self._wire.narrow)
        self._xp.right_shift(bits, limits.bits - 1, out=target)
        self._xp.bitwise_and(target, limits.max, out=target)
        self._xp.bitwise_xor(target, bits, out=target)
