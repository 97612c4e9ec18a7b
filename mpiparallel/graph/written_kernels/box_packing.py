"""Boxes of arrays copied side by side into one piece of a device's memory, or back from there: one launch for all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import gcd
from typing import Final

import numpy as np

from mpiparallel.backend.protocol import AddressTable, Array
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.written_kernels.written_text import written_kernel

_THREADS: Final = 256
_SHARE: Final = 2048
"""Units that a block copies."""

_WIDEST: Final = 16
_UNITS: Final = {
    1: "unsigned char",
    2: "unsigned short",
    4: "unsigned int",
    8: "unsigned long long",
    16: "struct alignas(16) { unsigned long long first, second; }",
}

_TEXT: Final = r"""
typedef $unit Unit;
KERNEL(
    Unit* const* __restrict__ boxes, const int* __restrict__ owners, const long long* __restrict__ starts,
    const long long* __restrict__ shapes, Unit* __restrict__ packed) {
    const int own = owners[blockIdx.x];
    const long long* extents = shapes + own * $length;
    const long long* steps = extents + $rank;
    const long long offset = steps[$rank], count = steps[$rank + 1], begin = starts[blockIdx.x];
    const long long end = begin + $share < count ? begin + $share : count;
    Unit* box = boxes[own];
    for (long long at = begin + threadIdx.x; at < end; at += $threads) {
        long long rest = at, place = 0;
        for (int dim = $rank - 1; dim >= 0; --dim) {
            place += rest % extents[dim] * steps[dim];
            rest /= extents[dim];
        }
        if ($packs) packed[offset + at] = box[place];
        else box[place] = packed[offset + at];
    }
}
"""

Dims = list[tuple[int, int]]


class BoxPacking:
    """Boxes, views of arrays of one dtype, and what copies them to ``packed`` side by side, and back.

    ``places`` are the elements of ``packed`` where they begin, if that is not where the one before ends.
    """

    def __init__(
        self, runtime: Runtime, boxes: Sequence[Array], packed: Array, places: Sequence[int] | None = None
    ) -> None:
        self._runtime = runtime
        beside = accumulate([0, *(box.size for box in boxes)]) if places is None else places
        filled = [(box, place) for box, place in zip(boxes, beside, strict=False) if box.size]
        self._boxes, self._places = [box for box, _ in filled], [place for _, place in filled]
        self._packed = packed
        self._dims = [_merged(box) for box in self._boxes]
        self._unit = self._units()
        self.pack = self._launch(packs=True)
        self.unpack = self._launch(packs=False)

    def _units(self) -> int:
        """Return how many elements are copied at once: as many as 16 bytes hold, where every run and address allows."""
        size = self._packed.dtype.itemsize
        together: int = _WIDEST // size
        address = self._runtime.backend.address
        for place, dims in zip(self._places, self._dims, strict=True):
            *outer, (extent, step) = dims
            runs = [extent, place, *(stride for _, stride in outer)] if step == 1 else [1]
            together = gcd(together, *runs)
        while together > 1 and any(address(one) % (together * size) for one in (*self._boxes, self._packed)):
            together //= 2
        return together

    def _launch(self, *, packs: bool) -> Kernel:
        if not self._boxes:
            return lambda: None
        rank = max(map(len, self._dims))
        counts = [box.size // self._unit for box in self._boxes]
        rows = [
            self._row(dims, rank, place // self._unit, count)
            for dims, place, count in zip(self._dims, self._places, counts, strict=True)
        ]
        blocks = [-(-count // _SHARE) for count in counts]
        owners = np.repeat(np.arange(len(blocks), dtype=np.int32), blocks)
        firsts = np.repeat([0, *accumulate(blocks)][:-1], blocks)
        starts = (np.arange(len(owners), dtype=np.int64) - firsts) * _SHARE
        device = self._runtime.backend.from_host
        places: dict[str, object] = {
            "unit": _UNITS[self._unit * self._packed.dtype.itemsize],
            "rank": rank,
            "length": 2 * rank + 2,
            "share": _SHARE,
            "packs": int(packs),
        }
        given = device(owners), device(starts.astype(np.int64)), device(np.array(rows, np.int64))
        table = AddressTable(tuple(self._boxes))
        return written_kernel(self._runtime, _TEXT, places, len(owners), _THREADS, table, *given, self._packed)

    def _row(self, dims: Dims, rank: int, offset: int, count: int) -> list[int]:
        """Return extents, steps, offset and count of a box, in units."""
        *outer, (extent, step) = dims
        lacking = [(1, 0)] * (rank - len(dims))
        inner = (extent // self._unit, step if self._unit == 1 else 1)
        whole = [*lacking, *((own, stride // self._unit) for own, stride in outer), inner]
        return [*(own for own, _ in whole), *(stride for _, stride in whole), offset, count]


def _merged(box: Array) -> Dims:
    """Return extents and steps, in elements, with dims that lie in one another as one."""
    size = box.dtype.itemsize
    found: Dims = []
    for extent, stride in zip(box.shape, box.strides, strict=True):
        if extent == 1:
            continue
        step = stride // size
        if found and found[-1][1] == extent * step:
            found[-1] = (found[-1][0] * extent, step)
        else:
            found.append((extent, step))
    return found or [(1, 1)]
