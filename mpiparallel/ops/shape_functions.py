"""MindSpore's functions that move elements: put together, cut apart, padded, repeated, in another shape."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.input_checks import normal_axis
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops import operations
from mpiparallel.ops.application import applied
from mpiparallel.ops.edge_padding import padding_pairs
from mpiparallel.refusal import only


def concat(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Return tensors put one after another along dim ``axis``."""
    return applied(operations.Concat(axis), tensors)


def stack(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Return tensors of one shape put one after another along a new dim ``axis``."""
    return applied(operations.Stack(axis), tensors)


def unstack(input_x: Any, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the slices of a tensor along dim ``axis``, without that dim."""
    pieces: tuple[Tensor, ...] = operations.Unstack(axis)(input_x)
    return pieces


def split(
    tensor: Any, split_size_or_sections: Any = None, axis: int = 0, output_num: int | None = None
) -> tuple[Tensor, ...]:
    """Return pieces along dim ``axis``: of so many elements each, the last of what is left, or of the sizes given.

    ``output_num`` asks for so many equal pieces instead. Raises ConfigurationError unless one of both is given.

    >>> [piece.shape for piece in split(np.zeros((5, 2)), 2)]
    [(2, 2), (2, 2), (1, 2)]
    """
    if (split_size_or_sections is None) == (output_num is None):
        raise ConfigurationError("split: give split_size_or_sections, or output_num for so many equal pieces")
    if output_num is None:
        return (tensor if isinstance(tensor, Tensor) else Tensor(tensor)).split(split_size_or_sections, axis)
    pieces: tuple[Tensor, ...] = operations.Split(axis, output_num)(tensor)
    return pieces


def reshape(input: Any, shape: Any) -> Tensor:
    """Return the elements in the same order in another shape; one extent may be -1."""
    return applied(operations.Reshape(), input, shape)


def flatten(input: Any, order: str = "C", *, start_dim: int = 1, end_dim: int = -1) -> Tensor:
    """Return the tensor with dims ``start_dim`` to ``end_dim`` as one: by default (n, ...) as n rows.

    Raises ConfigurationError for another ``order`` than "C", ShapeError where there are no such dims.
    """
    only("flatten", "order", order, "C")
    x = input if isinstance(input, Tensor) else Tensor(input)
    if (start_dim, end_dim) == (1, -1) or not x.ndim:
        return applied(operations.Flatten(), x)
    first, last = normal_axis(start_dim, x.ndim), normal_axis(end_dim, x.ndim)
    if first > last:
        raise ShapeError(f"flatten: start_dim {start_dim} is behind end_dim {end_dim} of {x.shape}; swap them")
    return x.reshape((*x.shape[:first], prod(x.shape[first : last + 1]), *x.shape[last + 1 :]))


def transpose(input: Any, input_perm: Any) -> Tensor:
    """Return the tensor with dims permuted: dim ``d`` of the output is dim ``input_perm[d]`` of the input."""
    return applied(operations.Transpose(), input, input_perm)


def broadcast_to(input: Any, shape: Any) -> Tensor:
    """Return the tensor repeated along its dims of one element, and along new leading dims, to ``shape``."""
    return applied(operations.BroadcastTo(shape), input)


def expand_dims(input_x: Any, axis: int) -> Tensor:
    """Return the tensor with a new dim of one element at ``axis``."""
    return applied(operations.ExpandDims(), input_x, axis)


def squeeze(input: Any, axis: Any = None) -> Tensor:
    """Return the tensor without its dims ``axis`` of one element, or all such dims when it is None."""
    return applied(operations.Squeeze(() if axis is None else axis), input)


def tile(input_x: Any, multiples: Sequence[int]) -> Tensor:
    """Return the tensor repeated ``multiples[d]`` times along each dim ``d``."""
    return applied(operations.Tile(), input_x, multiples)


def pad(input_x: Any, padding: Sequence[Any], mode: str = "constant", value: float | None = None) -> Tensor:
    """Return the tensor with elements of ``value``, 0 when it is None, around it.

    ``padding`` is a (before, after) for each dim, or one flat row of such numbers that starts with the last dim. Raises
    ConfigurationError for another mode.

    >>> pad(np.ones((1, 2)), (1, 0)).asnumpy().tolist()
    [[0.0, 1.0, 1.0]]
    """
    if mode != "constant":
        raise ConfigurationError(f"pad: mode {mode!r} is not supported; use 'constant'")
    pairs = padding_pairs(padding, input_x.ndim if hasattr(input_x, "ndim") else np.ndim(input_x))
    return applied(operations.Pad(pairs, 0 if value is None else value), input_x)


def slice(input_x: Any, begin: Sequence[int], size: Sequence[int]) -> Tensor:
    """Return ``size[d]`` elements of each dim ``d`` from ``begin[d]`` on, all that are left where the size is -1."""
    return applied(operations.Slice(), input_x, begin, size)


def strided_slice(
    input_x: Any,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int],
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Tensor:
    """Return every ``strides[d]``-th element of each dim ``d`` from ``begin[d]`` up to ``end[d]``.

    The masks are those of StridedSlice.
    """
    operator = operations.StridedSlice(begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    return applied(operator, input_x, tuple(begin), tuple(end), tuple(strides))


cat = concat
