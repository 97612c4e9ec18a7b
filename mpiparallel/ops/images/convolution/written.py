"""Convolutions on a device by written texts: those of one channel a group, and all others without columns in memory."""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.expression.kernel import expression_kernel
from mpiparallel.graph.expression.term import operand, reduce
from mpiparallel.graph.written_kernels import convolution_text
from mpiparallel.graph.written_kernels.tensor_core_text import has_tensor_cores, tensor_product
from mpiparallel.graph.written_kernels.written_text import element_type, run_after, written_kernel
from mpiparallel.ops.images.window import WindowsOfImage

_THREADS: Final = 256
_DEPTH: Final = 16
_MOST_BLOCKS: Final = 1 << 14
SHARE: Final = 4096
"""Windows that a part of the weights' gradient is summed over at least."""

_MOST_PARTS: Final = 64
_SLOT: Final = 8
"""Scratch memory that no kernel of terms uses."""


@dataclass(frozen=True)
class WrittenConvolution:
    """A convolution in ``group`` groups, and its gradients, on arrays in C order of one dtype."""

    runtime: Runtime
    windows: WindowsOfImage
    group: int

    def forward(self, x: Array, weight: Array, y: Array) -> Kernel:
        """Return what sets ``y``."""
        if weight.shape[1] == 1:
            return self._each(convolution_text.DEPTHWISE, y.size, x, weight, (x, weight, y))
        rows, columns = len(weight) // self.group, len(x) * prod(self.windows.output)
        return self._product(convolution_text.FORWARD, rows, columns, x, weight, (x, weight, y))

    def input_gradient(self, dy: Array, weight: Array, dx: Array) -> Kernel:
        """Return what sets ``dx``."""
        if weight.shape[1] == 1:
            return self._each(convolution_text.DEPTHWISE_INPUT, dx.size, dx, weight, (dy, weight, dx))
        rows, columns = weight.shape[1], len(dx) * prod(self.windows.image)
        return self._product(convolution_text.INPUT_GRADIENT, rows, columns, dx, weight, (dy, weight, dx))

    def weight_gradient(self, dy: Array, x: Array, dw: Array) -> Kernel:
        """Return what sets ``dw``: parts of the windows first, then their sum, in one order."""
        if dw.shape[1] == 1:
            given = (dy, x, dw, *self._numbers(x, dw))
            return self._launch(convolution_text.DEPTHWISE_WEIGHT, dw.size, x.dtype, 16, given)
        windows = len(x) * prod(self.windows.output)
        chunks = min(max(windows // SHARE, 1), _MOST_PARTS)
        share = -(-windows // chunks // _DEPTH) * _DEPTH
        chunks = -(-windows // share)
        wide = np.dtype(np.float64 if dw.dtype == np.float64 else np.float32)
        parts = self.runtime.scratch((chunks, dw.size), wide, _SLOT)
        rows, columns = len(dw) // self.group, prod(dw.shape[1:])
        text = convolution_text.WEIGHT_GRADIENT
        first = self._product(text, rows, columns, x, dw, (dy, x, parts), (np.int32(share),), chunks)
        total = reduce("sum", operand(0, parts.shape, wide), (0,)).astype(dw.dtype)
        return run_after([first], expression_kernel(self.runtime, [total], [parts], [dw.reshape(1, -1)]))

    def _product(
        self,
        text: str,
        rows: int,
        columns: int,
        x: Array,
        weight: Array,
        arrays: tuple[Array, ...],
        more: tuple[Any, ...] = (),
        chunks: int = 1,
    ) -> Kernel:
        least = min(rows, columns)
        tile = 64 if least > 32 or has_tensor_cores(x.dtype, self._allows_tf32) else 32 if least > 16 else 16
        blocks = chunks * self.group * -(-rows // tile) * -(-columns // tile)
        return self._launch(text, blocks, x.dtype, tile, (*arrays, *self._numbers(x, weight), *more))

    def _each(self, text: str, count: int, x: Array, weight: Array, arrays: tuple[Array, ...]) -> Kernel:
        blocks = min(-(-count // _THREADS), _MOST_BLOCKS)
        return self._launch(text, blocks, x.dtype, 16, (*arrays, *self._numbers(x, weight)))

    def _launch(self, text: str, blocks: int, dtype: np.dtype[Any], tile: int, arguments: tuple[Any, ...]) -> Kernel:
        window = self.windows.window
        pairs = {"": window.kernel, "step_": window.stride, "apart_": window.dilation}
        places: dict[str, object] = {f"{name}down": pair[0] for name, pair in pairs.items()}
        places |= {f"{name}across": pair[1] for name, pair in pairs.items()}
        places |= {"element": element_type(dtype), "tile": tile, "depth": _DEPTH}
        places["tensor_product"] = tensor_product(dtype, self._allows_tf32)
        places["has_tensor_cores"] = int(has_tensor_cores(dtype, self._allows_tf32))
        return written_kernel(self.runtime, text, places, blocks, _THREADS, *arguments)

    @property
    def _allows_tf32(self) -> bool:
        return self.runtime.backend.convolves_in_tf32

    def _numbers(self, x: Array, weight: Array) -> tuple[np.int32, ...]:
        windows = self.windows
        channels = weight.shape[1], len(weight) // self.group
        numbers = (len(x), self.group, *channels, *windows.image, *windows.output, *windows.before)
        return tuple(map(np.int32, numbers))
