"""What of a reduction a device's library is given: elements of a dtype that it knows, in the device's memory.

The rules are those of ``wire_dtypes``. What NCCL lacks on top of MPI (16-bit integers, complex numbers) travels as
32-bit integers, or as pairs of floats.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.communication.protocol import Reduction
from mpiparallel.communication.wire_dtypes import decode, encode, wire_of
from mpiparallel.errors import CommunicationError

Dtype = np.dtype[Any]

_WIDER: dict[Dtype, Dtype] = {np.dtype(narrow): np.dtype(wide) for narrow, wide in (("i2", "i4"), ("u2", "u4"))}
_PARTS: dict[Dtype, Dtype] = {np.dtype(whole): np.dtype(part) for whole, part in (("c8", "f4"), ("c16", "f8"))}
_STAND_INS = {**_WIDER, **_PARTS}


class DeviceWire:
    """How one reduction of ``dtype`` travels between devices; ``operation`` is what combines the elements.

    Each travels as ``narrow``, which MPI takes, or as ``dtype``, which the device's library takes as well.
    """

    def __init__(self, dtype: np.dtype[Any], operation: Reduction) -> None:
        self._wire = wire_of(dtype, operation)
        if dtype in _PARTS and operation == "prod":
            raise CommunicationError(f"prod of {dtype}: devices multiply no complex numbers; reduce on the CPU")
        self._itemsize = dtype.itemsize
        self.narrow = self._wire.dtype
        self.operation = self._wire.operation
        self.dtype = _STAND_INS.get(self.narrow, self.narrow)

    @property
    def is_plain(self) -> bool:
        """Whether elements travel as they are, seen as another dtype of their width at most."""
        return not self._wire.is_ordered and self.narrow not in _WIDER and self._itemsize == self.narrow.itemsize

    @property
    def is_ordered(self) -> bool:
        """Whether floats travel as integers of the same order, so that NaN is the largest or the smallest."""
        return self._wire.is_ordered

    @property
    def nan_code(self) -> int:
        """The integer of NaN among those of ordered floats."""
        limits = np.iinfo(self.narrow)
        return limits.max if self.operation == "max" else limits.min

    def seen(self, view: Array) -> Array:
        """Return a one-dimensional array as elements that travel, where they do so as they are."""
        return view.view(self.dtype)

    def elements(self, count: int) -> int:
        """Return as how many elements ``count`` of them travel."""
        return count * (2 if self.narrow in _PARTS else 1)

    def pack(self, view: Array) -> Array:
        """Return a one-dimensional array as it travels: itself, seen as another dtype, or a copy."""
        if self.is_plain:
            return self.seen(view)
        return encode(view, self._wire).astype(self.dtype)

    def unpack(self, travelled: Array, view: Array) -> None:
        """Put a result into a one-dimensional array, unless it lies there."""
        if self._wire.is_ordered or self._itemsize != self.narrow.itemsize:
            decode(travelled.astype(self.narrow), view, self._wire)
        elif not self.is_plain:
            view.view(self.narrow)[...] = travelled.astype(self.narrow)
