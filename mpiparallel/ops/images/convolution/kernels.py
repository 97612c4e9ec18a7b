"""The kernels of a convolution and of its gradients: which of several ways each is computed in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, Protocol

import numpy as np

from mpiparallel.backend.blas_threads import blas_threads
from mpiparallel.backend.convolutions.request import Direction
from mpiparallel.backend.products import pair_products
from mpiparallel.backend.protocol import Array
from mpiparallel.dtype import bfloat16
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.operator import Kernel
from mpiparallel.graph.written_kernels.written_text import BFLOAT16, has_written_kernels
from mpiparallel.ops.images.convolution.by_columns import ColumnConvolution
from mpiparallel.ops.images.convolution.by_library import faster
from mpiparallel.ops.images.convolution.channels_last import ChannelsLastConvolution, takes_channels_last
from mpiparallel.ops.images.convolution.columns import run_all
from mpiparallel.ops.images.convolution.compiled import CompiledConvolution, CompiledLoops
from mpiparallel.ops.images.convolution.pairs import PairConvolution
from mpiparallel.ops.images.convolution.single_window import SingleWindow
from mpiparallel.ops.images.convolution.written import WrittenConvolution
from mpiparallel.ops.images.window import WindowsOfImage

_FEW_LINES = 4
"""With fewer channels on the side of the weights, most of a tile of registers is empty, and columns are faster."""
_SLOT = 20
"""Scratch memory from here on holds copies of arrays whose order or dtype does not fit."""


class ConvolutionAlgorithm(Protocol):
    """An algorithm for a convolution and its gradients on arrays in C order, all of one dtype."""

    def forward(self, x: Array, weight: Array, y: Array) -> Kernel:
        """Return what sets ``y`` to the convolution of ``x`` with ``weight``."""

    def input_gradient(self, dy: Array, weight: Array, dx: Array) -> Kernel:
        """Return what sets ``dx`` to the gradient with respect to images of its shape."""

    def weight_gradient(self, dy: Array, x: Array, dw: Array) -> Kernel:
        """Return what sets ``dw`` to the gradient with respect to weights of its shape."""


def forward(runtime: Runtime, windows: WindowsOfImage, group: int, x: Array, weight: Array, y: Array) -> Kernel:
    """Return what sets ``y`` to the convolution of ``x`` with ``weight``."""
    own = _own_forward(runtime, windows, group, x, weight, y)
    return faster(runtime, Direction.FORWARD, windows, (x, weight, y), own)


def _own_forward(runtime: Runtime, windows: WindowsOfImage, group: int, x: Array, weight: Array, y: Array) -> Kernel:
    if takes_channels_last(runtime, group, (x, y), weight):
        return ChannelsLastConvolution(runtime, windows).forward(x, weight, y)
    lines = len(weight) // group
    dtype = _computed(runtime, windows, y.dtype, lines, len(x) * weight.size)
    return _on_plain_arrays(
        runtime, (x, weight), y, dtype, choose_algorithm(runtime, windows, group, dtype, lines).forward
    )


def input_gradient(
    runtime: Runtime, windows: WindowsOfImage, group: int, dy: Array, weight: Array, dx: Array
) -> Kernel:
    """Return what sets ``dx`` to the gradient with respect to images of its shape."""
    own = _own_input_gradient(runtime, windows, group, dy, weight, dx)
    return faster(runtime, Direction.INPUT_GRADIENT, windows, (dx, weight, dy), own)


def _own_input_gradient(
    runtime: Runtime, windows: WindowsOfImage, group: int, dy: Array, weight: Array, dx: Array
) -> Kernel:
    if takes_channels_last(runtime, group, (dy, dx), weight):
        return ChannelsLastConvolution(runtime, windows).input_gradient(dy, weight, dx)
    lines = weight.shape[1] if group == 1 else _FEW_LINES
    dtype = _computed(runtime, windows, dx.dtype, lines, len(dy) * weight.size)
    bind = choose_algorithm(runtime, windows, group, dtype, lines).input_gradient
    return _on_plain_arrays(runtime, (dy, weight), dx, dtype, bind)


def weight_gradient(runtime: Runtime, windows: WindowsOfImage, group: int, dy: Array, x: Array, dw: Array) -> Kernel:
    """Return what sets ``dw`` to the gradient with respect to weights of its shape."""
    own = _own_weight_gradient(runtime, windows, group, dy, x, dw)
    return faster(runtime, Direction.WEIGHT_GRADIENT, windows, (x, dw, dy), own)


def _own_weight_gradient(
    runtime: Runtime, windows: WindowsOfImage, group: int, dy: Array, x: Array, dw: Array
) -> Kernel:
    if takes_channels_last(runtime, group, (dy, x), dw):
        return ChannelsLastConvolution(runtime, windows).weight_gradient(dy, x, dw)
    lines = len(dw) // group
    dtype = _computed(runtime, windows, dw.dtype, lines, len(x) * dw.size)
    bind = choose_algorithm(runtime, windows, group, dtype, lines).weight_gradient
    return _on_plain_arrays(runtime, (dy, x), dw, dtype, bind)


def choose_algorithm(
    runtime: Runtime, windows: WindowsOfImage, group: int, dtype: Any, lines: int
) -> ConvolutionAlgorithm:
    """Return the fastest way in a dtype; ``lines`` are the channels of a group on the side of the weights."""
    if windows.output == (1, 1) and group == 1:
        return SingleWindow(runtime, windows)
    # CuPy multiplies no stack of matrices of bfloat16, and rounds none to TF32.
    is_rounded = runtime.backend.convolves_in_tf32 and dtype == np.float32
    is_product = windows.is_pointwise and group == 1 and np.dtype(dtype).name != BFLOAT16 and not is_rounded
    if has_written_kernels(runtime, np.dtype(dtype)) and not is_product:
        return WrittenConvolution(runtime, windows, group)
    loops = CompiledLoops.find(dtype) if _is_compiled(runtime, lines) else None
    if loops is None:
        return ColumnConvolution(runtime, windows, group)
    kind = PairConvolution if dtype == bfloat16 else CompiledConvolution
    return kind(runtime, loops, windows, group)


def _is_compiled(runtime: Runtime, lines: int) -> bool:
    # Compiled loops run on one thread: where BLAS has more, columns are faster.
    return runtime.backend.name == "cpu" and lines >= _FEW_LINES and blas_threads() == 1


def _computed(runtime: Runtime, windows: WindowsOfImage, dtype: Any, lines: int, weights: int) -> Any:
    """Return the dtype that is multiplied, where sums are float32 at least; an accelerator sees to that itself.

    ``weights`` are those of all images: each is multiplied once for each window.
    """
    if runtime.backend.name != "cpu":
        return np.dtype(dtype)
    is_large = windows.output != (1, 1) and weights * prod(windows.output) >= pair_products.SMALLEST
    if dtype == bfloat16 and is_large and _is_compiled(runtime, lines) and CompiledLoops.find(dtype) is not None:
        return np.dtype(dtype)
    return np.promote_types(dtype, np.float32)


def _on_plain_arrays(
    runtime: Runtime, inputs: Sequence[Array], output: Array, dtype: Any, bind: Callable[..., Kernel]
) -> Kernel:
    """Return the kernel on arrays in C order, of the dtype that is multiplied: copies where these are not.

    Compiled loops take what cannot be written for another kind of array, so that is copied too.
    """
    if any(array.size == 0 for array in (*inputs, output)):
        return partial(output.fill, 0)
    copy = runtime.array_module.copyto
    before: list[Kernel] = []
    arrays = []
    for slot, array in enumerate((*inputs, output), _SLOT):
        fits = array.dtype == dtype and array.flags.c_contiguous and getattr(array.flags, "writeable", True)
        arrays.append(array if fits else runtime.scratch(tuple(array.shape), dtype, slot))
        if not fits and array is not output:
            before.append(partial(copy, arrays[-1], array))
    kernel = bind(*arrays)
    after = [] if arrays[-1] is output else [partial(copy, output, arrays[-1], casting="same_kind")]
    return partial(run_all, [*before, kernel, *after]) if before or after else kernel
