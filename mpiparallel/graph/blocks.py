"""Cutting arrays into blocks that stay in a processor's cache while a kernel passes over them several times."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.expression.block_places import block_size as block_size
from mpiparallel.graph.input_checks import check_floating, check_shape
from mpiparallel.graph.operator import Operator

Block = tuple[Array, ...]


def element_blocks(arrays: Sequence[Array], size: int) -> list[Block]:
    """Return equal pieces of arrays of one shape, as views of at most ``size`` elements.

    >>> import numpy as np
    >>> [block[0].tolist() for block in element_blocks([np.arange(6).reshape(2, 3)], 4)]
    [[0, 1, 2, 3], [4, 5]]
    """
    return row_blocks(arrays, arrays[0].ndim, size)


def row_blocks(arrays: Sequence[Array], leading: int, size: int) -> list[Block]:
    """Return pieces of arrays that agree in their first ``leading`` dims, cut along those only.

    The pieces are views that have at most ``size`` elements, or one row. Leading dims of arrays in C order are merged
    into one; those of strided arrays are kept.
    """
    shape = tuple(arrays[0].shape[:leading])
    if leading == 0:
        return [tuple(arrays)]
    if leading > 1 and all(array.flags.c_contiguous for array in arrays):
        merged = prod(shape)
        return row_blocks([array.reshape(merged, *array.shape[leading:]) for array in arrays], 1, size)
    inner = max(prod(array.shape[1:]) for array in arrays)
    if inner > size and leading > 1:
        rows = ([array[row] for array in arrays] for row in range(shape[0]))
        return [block for row in rows for block in row_blocks(row, leading - 1, size)]
    step = max(size // max(inner, 1), 1)
    starts = range(0, shape[0], step)
    return [tuple(array[start : start + step] for array in arrays) for start in starts]


class Blockwise(Operator):
    """An element-wise operator of floating-point tensors of one shape, computed in one pass by its ``expression``."""

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        check_floating(x=inputs[0])
        for position, spec in enumerate(inputs):
            check_shape(inputs[0].shape, **{f"input {position}": spec})
        return (inputs[0],)

    def equation(self, *inputs: TensorSpec) -> Equation:
        return Equation.same(*(len(spec.shape) for spec in inputs))
