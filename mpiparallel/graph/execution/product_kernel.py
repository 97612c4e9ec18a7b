"""The kernel of a product of matrices, whatever multiplies them."""

from __future__ import annotations

from functools import partial

import numpy as np

from mpiparallel.backend.products.product import Product
from mpiparallel.backend.protocol import Array
from mpiparallel.dtype import is_narrow
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.expression.kernel import expression_kernel
from mpiparallel.graph.expression.loop_kernel import is_worth_a_loop
from mpiparallel.graph.expression.term import operand

_SLOT = 50
"""Scratch memory from here on holds factors and product in float32."""


def product_kernel(runtime: Runtime, x: Array, y: Array, output: Array, allows_tf32: bool | None = None) -> Kernel:
    """Return what sets ``output`` to the product of the last two dims of ``x`` and ``y``; leading dims broadcast.

    What the backend's own products take is theirs; the rest is the array library's. Products of 16 bits are summed in
    float32 and rounded once: where neither does that, they are cast before and after. ``allows_tf32`` is that of
    ``Product``.
    """
    bound = runtime.backend.products.bind(Product(x, y, output, allows_tf32=allows_tf32), runtime.scratch)
    if bound is not None:
        return bound
    if any(is_narrow(one.dtype) for one in (x, y, output)):
        return _wide_product(runtime, x, y, output)
    return partial(runtime.array_module.matmul, x, y, out=output)


def _wide_product(runtime: Runtime, x: Array, y: Array, output: Array) -> Kernel:
    steps: list[Kernel] = []
    wide = []
    for slot, one in enumerate((x, y), _SLOT):
        source, shown = _in_order(runtime, one, slot)
        steps.append(_cast(runtime, source, shown))
        wide.append(shown if source is one else shown.swapaxes(-1, -2))
    product = runtime.scratch(output.shape, np.float32, _SLOT + 2)
    steps.append(partial(runtime.array_module.matmul, *wide, out=product))
    steps.append(_cast(runtime, product, output))

    def run() -> None:
        for step in steps:
            step()

    return run


def _in_order(runtime: Runtime, array: Array, slot: int) -> tuple[Array, Array]:
    """Return an array, its matrices transposed where they lie so, and float32 memory for its numbers in that order."""
    lies_turned = array.strides[-2] == array.itemsize != array.strides[-1]
    source = array.swapaxes(-1, -2) if lies_turned else array
    return source, runtime.scratch(source.shape, np.float32, slot)


def _cast(runtime: Runtime, source: Array, target: Array) -> Kernel:
    """Return what sets the target to the source's numbers; compiled loops are several times as fast as NumPy there."""
    if not is_worth_a_loop(source.size):
        return partial(runtime.array_module.copyto, target, source, casting="same_kind")
    term = operand(0, tuple(source.shape), source.dtype).astype(target.dtype)
    return expression_kernel(runtime, [term], [source], [target])
