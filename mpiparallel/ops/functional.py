"""MindSpore's functions of tensors; each applies an operator."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from mpiparallel.errors import ShapeError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops import operations
from mpiparallel.ops.clipping import clip_by_global_norm as clip_by_global_norm
from mpiparallel.ops.elementwise_functions import abs as abs
from mpiparallel.ops.elementwise_functions import add as add
from mpiparallel.ops.elementwise_functions import div as div
from mpiparallel.ops.elementwise_functions import equal as equal
from mpiparallel.ops.elementwise_functions import exp as exp
from mpiparallel.ops.elementwise_functions import gelu as gelu
from mpiparallel.ops.elementwise_functions import greater as greater
from mpiparallel.ops.elementwise_functions import greater_equal as greater_equal
from mpiparallel.ops.elementwise_functions import less as less
from mpiparallel.ops.elementwise_functions import less_equal as less_equal
from mpiparallel.ops.elementwise_functions import log as log
from mpiparallel.ops.elementwise_functions import logical_and as logical_and
from mpiparallel.ops.elementwise_functions import logical_not as logical_not
from mpiparallel.ops.elementwise_functions import logical_or as logical_or
from mpiparallel.ops.elementwise_functions import maximum as maximum
from mpiparallel.ops.elementwise_functions import minimum as minimum
from mpiparallel.ops.elementwise_functions import mul as mul
from mpiparallel.ops.elementwise_functions import neg as neg
from mpiparallel.ops.elementwise_functions import not_equal as not_equal
from mpiparallel.ops.elementwise_functions import pow as pow
from mpiparallel.ops.elementwise_functions import relu as relu
from mpiparallel.ops.elementwise_functions import select as select
from mpiparallel.ops.elementwise_functions import sigmoid as sigmoid
from mpiparallel.ops.elementwise_functions import sign as sign
from mpiparallel.ops.elementwise_functions import sqrt as sqrt
from mpiparallel.ops.elementwise_functions import square as square
from mpiparallel.ops.elementwise_functions import sub as sub
from mpiparallel.ops.elementwise_functions import tanh as tanh
from mpiparallel.ops.elementwise_functions import where as where
from mpiparallel.ops.gradient import grad as grad
from mpiparallel.ops.gradient import value_and_grad as value_and_grad


def _apply(operator: Any, *inputs: Any) -> Tensor:
    result: Tensor = operator(*inputs)
    return result


def tensor(input_data: Any = None, dtype: Any = None, shape: Sequence[int] | None = None, init: Any = None) -> Tensor:
    """Return a tensor, as ``Tensor`` makes it."""
    return Tensor(input_data, dtype, shape, init)


def scalar_to_tensor(input_x: Any, dtype: Any = np.float32) -> Tensor:
    """Return a number as a 0-d tensor of ``dtype``."""
    return Tensor(np.asarray(input_x, np.dtype(dtype)))


def scalar_to_array(input_x: Any) -> Tensor:
    """Return a number as a 0-d tensor of its own dtype; Python floats become float32."""
    return Tensor(input_x)


def shape(input_x: Any) -> tuple[int, ...]:
    """Return the extents of the whole tensor, in elements."""
    return input_x.shape if isinstance(input_x, Tensor) else np.shape(input_x)


def rank(input_x: Any) -> int:
    """Return the number of dims."""
    return len(shape(input_x))


def size(input_x: Any) -> int:
    """Return the number of elements of the whole tensor."""
    return prod(shape(input_x))


def dtype(input_x: Tensor) -> np.dtype[Any]:
    """Return the type of an element."""
    return input_x.dtype


def matmul(input: Any, other: Any) -> Tensor:
    """Return the matrix product of the last two dims, with broadcasting of the others; 1-d tensors are vectors.

    >>> matmul(np.ones((5, 2, 3)), np.ones((3, 4))).shape
    (5, 2, 4)
    """
    x = expand_dims(input, 0) if rank(input) == 1 else input
    y = expand_dims(other, 1) if rank(other) == 1 else other
    product = _apply(operations.MatMul() if rank(x) == rank(y) == 2 else operations.BatchMatMul(), x, y)
    if rank(other) == 1:
        product = squeeze(product, -1)
    return squeeze(product, -1 if rank(other) == 1 else -2) if rank(input) == 1 else product


def reduce_sum(x: Any, axis: Any = (), keep_dims: bool = False) -> Tensor:
    """Return the sum over dims, all when none are given."""
    return _apply(operations.ReduceSum(keep_dims), x, axis)


def reduce_mean(x: Any, axis: Any = (), keep_dims: bool = False) -> Tensor:
    """Return the mean over dims, all when none are given."""
    return _apply(operations.ReduceMean(keep_dims), x, axis)


def reduce_max(x: Any, axis: Any = (), keep_dims: bool = False) -> Tensor:
    """Return the largest element over dims, all when none are given."""
    return _apply(operations.ReduceMax(keep_dims), x, axis)


def reduce_min(x: Any, axis: Any = (), keep_dims: bool = False) -> Tensor:
    """Return the smallest element over dims, all when none are given."""
    return _apply(operations.ReduceMin(keep_dims), x, axis)


def mean(x: Any, axis: Any = None, keep_dims: bool = False) -> Tensor:
    """Return the mean over dims, all when ``axis`` is None."""
    return reduce_mean(x, () if axis is None else axis, keep_dims)


def softmax(input: Any, axis: int = -1) -> Tensor:
    """Return ``exp(input) / sum(exp(input))`` along dim ``axis``."""
    return _apply(operations.Softmax(axis), input)


def log_softmax(logits: Any, axis: int = -1) -> Tensor:
    """Return the logarithm of softmax along dim ``axis``."""
    return _apply(operations.LogSoftmax(axis), logits)


def layer_norm(input: Any, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float = 1e-5) -> Tensor:
    """Return ``input`` normalised over its last dims, those of ``normalized_shape``, times ``weight`` plus ``bias``."""
    first = rank(input) - len(normalized_shape)
    if shape(input)[first:] != tuple(normalized_shape):
        raise ShapeError(f"layer_norm: normalized_shape {normalized_shape} must be the last dims of {shape(input)}")
    output: Tensor = operations.LayerNorm(first, first, eps)(input, weight, bias)[0]
    return output


def gather(input_params: Any, input_indices: Any, axis: int = 0) -> Tensor:
    """Return the slices of ``input_params`` along dim ``axis`` at ``input_indices``."""
    return _apply(operations.Gather(), input_params, input_indices, axis)


def one_hot(indices: Any, depth: int, on_value: Any = 1, off_value: Any = 0, axis: int = -1) -> Tensor:
    """Return ``on_value`` at each index along a new dim of ``depth`` elements, ``off_value`` elsewhere."""
    return _apply(operations.OneHot(axis), indices, depth, on_value, off_value)


def dropout(input: Any, p: float = 0.5, training: bool = True) -> Tensor:
    """Return ``input`` with each element zeroed at probability ``p``, the others divided by ``1 - p``.

    Without ``training`` it is ``input``.
    """
    x = input if isinstance(input, Tensor) else Tensor(input)
    if not training or p == 0.0:
        return x
    output: Tensor = operations.Dropout(1.0 - p)(x)[0]
    return output


def concat(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Return tensors put one after another along dim ``axis``."""
    return _apply(operations.Concat(axis), tensors)


def stack(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Return tensors of one shape put one after another along a new dim ``axis``."""
    return concat([expand_dims(item, axis) for item in tensors], axis)


def split(input_x: Any, axis: int = 0, output_num: int = 1) -> tuple[Tensor, ...]:
    """Return the ``output_num`` equal pieces of a tensor along dim ``axis``."""
    pieces = operations.Split(axis, output_num)(input_x)
    return pieces if isinstance(pieces, tuple) else (pieces,)


def reshape(input: Any, shape: Any) -> Tensor:
    """Return the elements in the same order in another shape; one extent may be -1."""
    return _apply(operations.Reshape(), input, shape)


def transpose(input: Any, input_perm: Any) -> Tensor:
    """Return the tensor with dims permuted: dim ``d`` of the output is dim ``input_perm[d]`` of the input."""
    return _apply(operations.Transpose(), input, input_perm)


def broadcast_to(input: Any, shape: Any) -> Tensor:
    """Return the tensor repeated along its dims of one element, and along new leading dims, to ``shape``."""
    return _apply(operations.BroadcastTo(shape), input)


def expand_dims(input_x: Any, axis: int) -> Tensor:
    """Return the tensor with a new dim of one element at ``axis``."""
    return _apply(operations.ExpandDims(), input_x, axis)


def squeeze(input: Any, axis: Any = None) -> Tensor:
    """Return the tensor without its dims ``axis`` of one element, or all such dims when it is None."""
    return _apply(operations.Squeeze(() if axis is None else axis), input)


def cast(input: Any, dtype: Any) -> Tensor:
    """Return the tensor with elements of another dtype."""
    return _apply(operations.Cast(), input, dtype)


def zeros_like(input: Any) -> Tensor:
    """Return zeros of the shape and dtype of a tensor."""
    return _apply(operations.ZerosLike(), input)


def ones_like(input: Any) -> Tensor:
    """Return ones of the shape and dtype of a tensor."""
    return _apply(operations.OnesLike(), input)


def fill(type: Any, shape: Any, value: Any) -> Tensor:
    """Return a tensor of a dtype and a shape with ``value`` everywhere."""
    return _apply(operations.Fill(), type, shape, value)


def stop_gradient(value: Any) -> Tensor:
    """Return the tensor itself, with no gradient."""
    return _apply(operations.StopGradient(), value)


def assign(variable: Parameter, value: Any) -> None:
    """Overwrite a parameter with a value of its shape, or 0-d."""
    operations.Assign()(variable, value)


def assign_add(variable: Parameter, value: Any) -> None:
    """Add to a parameter a value of its shape, or 0-d."""
    operations.AssignAdd()(variable, value)


def assign_sub(variable: Parameter, value: Any) -> None:
    """Subtract from a parameter a value of its shape, or 0-d."""
    operations.AssignSub()(variable, value)
