"""MindSpore's functions that apply an operator which takes more than tensors, and those that tell of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel.dtype import Type
from mpiparallel.errors import ShapeError
from mpiparallel.graph.own_operators import Cast
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.application import applied
from mpiparallel.ops.constant import StopGradient
from mpiparallel.ops.dropout_mask import Dropout
from mpiparallel.ops.gathering import Gather
from mpiparallel.ops.inspection import DType, Rank, Shape, Size
from mpiparallel.ops.layer_normalization import LayerNorm
from mpiparallel.ops.matrix_product import BatchMatMul, MatMul
from mpiparallel.ops.one_hot_encoding import OneHot
from mpiparallel.ops.optimizer_update import Assign, AssignAdd, AssignSub
from mpiparallel.ops.reduction import ReduceMax, ReduceMean, ReduceMin, ReduceSum
from mpiparallel.ops.shape_functions import expand_dims, squeeze
from mpiparallel.ops.softmax_and_log import LogSoftmax, Softmax
from mpiparallel.remark import no_effect


def tensor(
    input_data: Any = None,
    dtype: Any = None,
    shape: Sequence[int] | None = None,
    init: Any = None,
    const_arg: bool = False,
    device: str | None = None,
) -> Tensor:
    """Return a tensor, as ``Tensor`` makes it.

    Parameters
    ----------
    input_data, dtype, shape, init
        As for ``Tensor``.
    const_arg, device
        MindSpore's; they change nothing, as a remark says.

    Returns
    -------
    Tensor
        Of the dtype of the data; of Python floats float32.

    Examples
    --------
    >>> tensor([1.0, 2.0]).dtype
    mpiparallel.float32
    """
    no_effect("tensor", "const_arg", const_arg, "a tensor that a network is given is its input", default=False)
    no_effect("tensor", "device", device, "a tensor goes to the device of the network that takes it")
    return Tensor(input_data, dtype, shape, init)


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """Return a tensor of an array's values, in its memory.

    Parameters
    ----------
    array : numpy.ndarray
        Of any shape and dtype.

    Returns
    -------
    Tensor
        Of the same shape and dtype; a change of the array shows in it.

    Raises
    ------
    ConfigurationError
        For what is no array.

    Examples
    --------
    >>> array = np.zeros(2)
    >>> shown = from_numpy(array)
    >>> array[0] = 3.0
    >>> shown.asnumpy().tolist()
    [3.0, 0.0]
    """
    return Tensor.from_numpy(array)


def is_tensor(obj: Any) -> bool:
    """Return whether an object is a tensor.

    Parameters
    ----------
    obj : object
        Anything.

    Returns
    -------
    bool
        True for parameters too.

    Examples
    --------
    >>> is_tensor(Tensor(1.0)), is_tensor(1.0)
    (True, False)
    """
    return isinstance(obj, Tensor)


def scalar_to_tensor(input_x: Any, dtype: Any = np.float32) -> Tensor:
    """Return a number as a 0-d tensor of ``dtype``."""
    return Tensor(np.asarray(input_x, np.dtype(dtype)))


def scalar_to_array(input_x: Any) -> Tensor:
    """Return a number as a 0-d tensor of its own dtype; Python floats become float32."""
    return Tensor(input_x)


def shape(input_x: Any) -> tuple[int, ...]:
    """Return the extents of the whole tensor, in elements."""
    return Shape()(input_x)


def rank(input_x: Any) -> int:
    """Return the number of dims."""
    return Rank()(input_x)


def size(input_x: Any) -> int:
    """Return the number of elements of the whole tensor."""
    return Size()(input_x)


def dtype(input_x: Any) -> Type:
    """Return the type of an element."""
    return DType()(input_x)


def matmul(input: Any, other: Any) -> Tensor:
    """Return the matrix product of the last two dims, with broadcasting of the others; 1-d tensors are vectors.

    >>> matmul(np.ones((5, 2, 3)), np.ones((3, 4))).shape
    (5, 2, 4)
    """
    x = expand_dims(input, 0) if rank(input) == 1 else input
    y = expand_dims(other, 1) if rank(other) == 1 else other
    product = applied(MatMul() if rank(x) == rank(y) == 2 else BatchMatMul(), x, y)
    if rank(other) == 1:
        product = squeeze(product, -1)
    return squeeze(product, -1 if rank(other) == 1 else -2) if rank(input) == 1 else product


def reduce_sum(x: Any, axis: Any = (), keep_dims: bool = False) -> Tensor:
    """Return the sum over dims, all when none are given."""
    return applied(ReduceSum(keep_dims), x, axis)


def reduce_mean(x: Any, axis: Any = (), keep_dims: bool = False) -> Tensor:
    """Return the mean over dims, all when none are given."""
    return applied(ReduceMean(keep_dims), x, axis)


def reduce_max(x: Any, axis: Any = (), keep_dims: bool = False) -> Tensor:
    """Return the largest element over dims, all when none are given."""
    return applied(ReduceMax(keep_dims), x, axis)


def reduce_min(x: Any, axis: Any = (), keep_dims: bool = False) -> Tensor:
    """Return the smallest element over dims, all when none are given."""
    return applied(ReduceMin(keep_dims), x, axis)


def mean(x: Any, axis: Any = None, keep_dims: bool = False) -> Tensor:
    """Return the mean over dims, all when ``axis`` is None."""
    return reduce_mean(x, () if axis is None else axis, keep_dims)


def softmax(input: Any, axis: int = -1, *, dtype: Any = None) -> Tensor:
    """Return ``exp(input) / sum(exp(input))`` along dim ``axis``, computed in ``dtype`` where one is given."""
    return applied(Softmax(axis), input if dtype is None else Tensor(input).astype(dtype))


def log_softmax(logits: Any, axis: int = -1) -> Tensor:
    """Return the logarithm of softmax along dim ``axis``."""
    return applied(LogSoftmax(axis), logits)


def layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """Return ``input`` normalised over its last dims, those of ``normalized_shape``, times ``weight`` plus ``bias``.

    Without them it is not scaled and not moved. Raises ShapeError for another ``normalized_shape``.
    """
    first = rank(input) - len(normalized_shape)
    if shape(input)[first:] != tuple(normalized_shape):
        raise ShapeError(f"layer_norm: normalized_shape {normalized_shape} must be the last dims of {shape(input)}")
    dtype = DType()(input)
    scale = np.ones(normalized_shape, dtype) if weight is None else weight
    shift = np.zeros(normalized_shape, dtype) if bias is None else bias
    output: Tensor = LayerNorm(first, first, eps)(input, scale, shift)[0]
    return output


def gather(input_params: Any, input_indices: Any, axis: int = 0, batch_dims: int = 0) -> Tensor:
    """Return the slices of ``input_params`` along dim ``axis`` at ``input_indices``, by table of a batch."""
    return applied(Gather(batch_dims), input_params, input_indices, axis)


def one_hot(indices: Any, depth: int, on_value: Any = 1, off_value: Any = 0, axis: int = -1) -> Tensor:
    """Return ``on_value`` at each index along a new dim of ``depth`` elements, ``off_value`` elsewhere."""
    return applied(OneHot(axis), indices, depth, on_value, off_value)


def dropout(input: Any, p: float = 0.5, training: bool = True, seed: int | None = None) -> Tensor:
    """Return ``input`` with each element zeroed at probability ``p``, the others divided by ``1 - p``.

    Without ``training`` it is ``input``. Another ``seed`` draws other elements.
    """
    x = input if isinstance(input, Tensor) else Tensor(input)
    if not training or p == 0.0:
        return x
    output: Tensor = Dropout(1.0 - p, seed or 0)(x)[0]
    return output


def cast(input: Any, dtype: Any) -> Tensor:
    """Return the tensor with elements of another dtype."""
    return applied(Cast(), input, dtype)


def depend(value: Any, expr: Any) -> Any:
    """Return ``value``; what ``expr`` comes from has been done by then, as everything is in the order it is written."""
    return value


def stop_gradient(value: Any) -> Tensor:
    """Return the tensor itself, with no gradient."""
    return applied(StopGradient(), value)


def assign(variable: Parameter, value: Any) -> None:
    """Overwrite a parameter with a value of its shape, or 0-d."""
    Assign()(variable, value)


def assign_add(variable: Parameter, value: Any) -> None:
    """Add to a parameter a value of its shape, or 0-d."""
    AssignAdd()(variable, value)


def assign_sub(variable: Parameter, value: Any) -> None:
    """Subtract from a parameter a value of its shape, or 0-d."""
    AssignSub()(variable, value)
