"""Convolutions of bfloat16 by AVX512-BF16: the compiled ones on the bits of the numbers, whose sums are float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.operator import Kernel
from mpiparallel.ops.images.convolution.compiled import DEPTH, CompiledConvolution
from mpiparallel.ops.images.window import Pair

_SLOT = 5


class PairConvolution(CompiledConvolution):
    """A convolution in ``group`` groups, and its gradients, on arrays of bfloat16 in C order."""

    def forward(self, x: Array, weight: Array, y: Array) -> Kernel:
        """Return what sets ``y``."""
        return super().forward(*_bits(x, weight, y))

    def input_gradient(self, dy: Array, weight: Array, dx: Array) -> Kernel:
        """Return what sets ``dx``."""
        return super().input_gradient(*_bits(dy, weight, dx))

    def weight_gradient(self, dy: Array, x: Array, dw: Array) -> Kernel:
        """Return what sets ``dw``."""
        return super().weight_gradient(*_bits(dy, x, dw))

    def _sums(self, dw: Array, last: bool) -> tuple[object, ...]:
        module = self.loops.module
        tile, height, width = self._tile(), len(dw) // self.group, dw[0].size
        panel = int(module.panel_bytes.py_func(DEPTH))
        sizes = (
            *(module.COLUMNS // module.LINES * panel, -(-height // module.LINES) * panel),
            self.group * -(-width // module.COLUMNS) * -(-height // module.ROWS) * module.TILE_BYTES,
        )
        packed, lines, sums = self._bytes(sizes)
        return last, packed, tile, lines, sums

    def _memory(self, dtype: Any, height: int, blocks: list[Pair], together: int) -> tuple[Array, ...]:
        """Return memory for packed columns, for a tile or a square of lines, for packed lines, and for sums."""
        module = self.loops.module
        panel = int(module.panel_bytes.py_func(max(end - begin for begin, end in blocks)))
        columns = together // module.COLUMNS if len(blocks) > 1 else 1
        sizes = (
            *(together // module.LINES * panel, len(blocks) * -(-height // module.LINES) * panel),
            columns * -(-height // module.ROWS) * module.TILE_BYTES,
        )
        packed, lines, sums = self._bytes(sizes)
        return packed, self._tile(), lines, sums

    def _tile(self) -> Array:
        return self.runtime.scratch((self.loops.tile_size,), np.uint16, 3)

    def _bytes(self, sizes: tuple[int, ...]) -> list[Array]:
        return [self.runtime.scratch((size,), np.uint8, slot) for slot, size in enumerate(sizes, _SLOT)]


def _bits(*arrays: Array) -> list[Array]:
    return [array.view(np.uint16) for array in arrays]
