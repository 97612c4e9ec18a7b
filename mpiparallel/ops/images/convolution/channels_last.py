"""Convolutions on a device of images whose channels are last in memory: products by tensor cores, without columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.execution.product_kernel import product_kernel
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.expression.kernel import expression_kernel
from mpiparallel.graph.expression.term import operand, reduce
from mpiparallel.graph.written_kernels import channels_last_text
from mpiparallel.graph.written_kernels.tensor_core_text import has_tensor_cores, tensor_product
from mpiparallel.graph.written_kernels.written_text import element_type, has_written_kernels, run_after, written_kernel
from mpiparallel.ops.images.window import WindowsOfImage

_THREADS: Final = 256
_ROWS: Final = 128
_LINES: Final = 64
_DEPTH: Final = 32
_LOAD: Final = 16
"""Bytes of channels that are loaded at once."""
SHARE: Final = 4096
"""Windows that a part of the weights' gradient is summed over at least."""
_MOST_PARTS: Final = 64
_SLOT: Final = 8
"""Scratch memory from here on is used by no kernel of terms."""


def is_channels_last(array: Array) -> bool:
    """Return whether images (n, channels, height, width) have their channels last in memory, and only so."""
    return not array.flags.c_contiguous and array.transpose(0, 2, 3, 1).flags.c_contiguous


def takes_channels_last(runtime: Runtime, group: int, images: Sequence[Array], weight: Array) -> bool:
    """Return whether tensor cores convolve these images as they lie in memory."""
    dtype, allows_tf32 = weight.dtype, runtime.backend.convolves_in_tf32
    if group != 1 or not has_tensor_cores(dtype, allows_tf32) or not has_written_kernels(runtime, dtype):
        return False
    alike = all(is_channels_last(one) and one.dtype == dtype for one in images)
    whole_loads = not any(extent * dtype.itemsize % _LOAD for extent in weight.shape[:2])
    addresses = [runtime.backend.address(one) % _LOAD for one in images]
    return alike and whole_loads and not any(addresses)


@dataclass(frozen=True)
class ChannelsLastConvolution:
    """A convolution in one group, and its gradients; weights are in C order."""

    runtime: Runtime
    windows: WindowsOfImage

    def forward(self, x: Array, weight: Array, y: Array) -> Kernel:
        """Return what sets ``y``."""
        if self.windows.is_pointwise:
            return self._product(_pixels(x), _matrix(weight).T, _pixels(y))
        return self._gathered(channels_last_text.FORWARD, x, weight, y, (0, 2, 1))

    def input_gradient(self, dy: Array, weight: Array, dx: Array) -> Kernel:
        """Return what sets ``dx``."""
        if self.windows.is_pointwise:
            return self._product(_pixels(dy), _matrix(weight), _pixels(dx))
        return self._gathered(channels_last_text.INPUT_GRADIENT, dy, weight, dx, (1, 2, 0))

    def weight_gradient(self, dy: Array, x: Array, dw: Array) -> Kernel:
        """Return what sets ``dw``: parts of the windows first, then their sum, in one order."""
        if self.windows.is_pointwise:
            return self._product(_pixels(dy).T, _pixels(x), _matrix(dw))
        outputs, depth = dw.shape[:2]
        taps, windows = prod(dw.shape[2:]), len(x) * prod(self.windows.output)
        chunks = min(max(windows // SHARE, 1), _MOST_PARTS)
        share = -(-windows // chunks // _DEPTH) * _DEPTH
        chunks = -(-windows // share)
        parts = self.runtime.scratch((chunks, dw.size), np.float32, _SLOT)
        wide = _wide(depth)
        blocks = chunks * taps * -(-outputs // _LINES) * -(-depth // wide)
        numbers = self._numbers(len(x), depth, outputs, self.windows.image, self.windows.output)
        first = self._launch(
            channels_last_text.WEIGHT_GRADIENT, blocks, wide, dw.dtype, dy, x, parts, *numbers, np.int32(share)
        )
        turned = self.runtime.scratch((outputs, taps, depth), dw.dtype, _SLOT + 1)
        total = reduce("sum", operand(0, parts.shape, parts.dtype), (0,)).astype(dw.dtype)
        add_up = expression_kernel(self.runtime, [total], [parts], [turned.reshape(1, -1)])
        target = dw.reshape(outputs, depth, taps).transpose(0, 2, 1)
        return run_after([first, add_up], partial(self.runtime.array_module.copyto, target, turned))

    def _product(self, x: Array, y: Array, output: Array) -> Kernel:
        return product_kernel(self.runtime, x, y, output, allows_tf32=self.runtime.backend.convolves_in_tf32)

    def _gathered(self, text: str, source: Array, weight: Array, target: Array, order: tuple[int, ...]) -> Kernel:
        """Return a product of what is gathered from ``source`` with weights in the order (outputs, taps, channels)."""
        taps = prod(weight.shape[2:])
        turned = weight.reshape(*weight.shape[:2], taps).transpose(order)
        weights = self.runtime.scratch(tuple(turned.shape), weight.dtype, _SLOT)
        outputs, _, depth = turned.shape
        wide = _wide(outputs)
        blocks = -(-len(target) * prod(target.shape[2:]) // _ROWS) * -(-outputs // wide)
        numbers = self._numbers(len(target), depth, outputs, source.shape[2:], target.shape[2:])
        launch = self._launch(text, blocks, wide, weight.dtype, source, weights, target, *numbers)
        return run_after([partial(self.runtime.array_module.copyto, weights, turned)], launch)

    def _numbers(
        self, images: int, depth: int, outputs: int, source: Sequence[int], target: Sequence[int]
    ) -> tuple[np.int32, ...]:
        return tuple(map(np.int32, (images, depth, outputs, *source, *target, *self.windows.before)))

    def _launch(self, text: str, blocks: int, wide: int, dtype: np.dtype[Any], *arguments: Any) -> Kernel:
        window = self.windows.window
        pairs = {"": window.kernel, "step_": window.stride, "apart_": window.dilation}
        places: dict[str, object] = {f"{name}down": pair[0] for name, pair in pairs.items()}
        places |= {f"{name}across": pair[1] for name, pair in pairs.items()}
        product = tensor_product(dtype, self.runtime.backend.convolves_in_tf32)
        places |= {"element": element_type(dtype), "tensor_product": product, "wide": wide}
        return written_kernel(self.runtime, text, places, blocks, _THREADS, *arguments)


def _wide(columns: int) -> int:
    return 128 if columns > _LINES else _LINES


def _pixels(images: Array) -> Array:
    """Return images as a matrix of pixels by channels."""
    return images.transpose(0, 2, 3, 1).reshape(-1, images.shape[1])


def _matrix(weight: Array) -> Array:
    return weight.reshape(len(weight), -1)
