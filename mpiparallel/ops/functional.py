"""MindSpore's functions of tensors; each applies an operator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial as partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mpiparallel.absent_names import getattr_of
from mpiparallel.dtype import Type
from mpiparallel.errors import ShapeError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops import operations
from mpiparallel.ops.activation_functions import elu as elu
from mpiparallel.ops.activation_functions import hardsigmoid as hardsigmoid
from mpiparallel.ops.activation_functions import hardswish as hardswish
from mpiparallel.ops.activation_functions import leaky_relu as leaky_relu
from mpiparallel.ops.activation_functions import logsigmoid as logsigmoid
from mpiparallel.ops.activation_functions import mish as mish
from mpiparallel.ops.activation_functions import prelu as prelu
from mpiparallel.ops.activation_functions import relu6 as relu6
from mpiparallel.ops.activation_functions import silu as silu
from mpiparallel.ops.activation_functions import softplus as softplus
from mpiparallel.ops.activation_functions import softsign as softsign
from mpiparallel.ops.activation_functions import swish as swish
from mpiparallel.ops.clipping import clip_by_global_norm as clip_by_global_norm
from mpiparallel.ops.clipping import clip_by_norm as clip_by_norm
from mpiparallel.ops.clipping import clip_by_value as clip_by_value
from mpiparallel.ops.constant_functions import arange as arange
from mpiparallel.ops.constant_functions import eye as eye
from mpiparallel.ops.constant_functions import fill as fill
from mpiparallel.ops.constant_functions import full as full
from mpiparallel.ops.constant_functions import ones as ones
from mpiparallel.ops.constant_functions import ones_like as ones_like
from mpiparallel.ops.constant_functions import range as range
from mpiparallel.ops.constant_functions import zeros as zeros
from mpiparallel.ops.constant_functions import zeros_like as zeros_like
from mpiparallel.ops.elementwise_functions import abs as abs
from mpiparallel.ops.elementwise_functions import add as add
from mpiparallel.ops.elementwise_functions import cos as cos
from mpiparallel.ops.elementwise_functions import div as div
from mpiparallel.ops.elementwise_functions import equal as equal
from mpiparallel.ops.elementwise_functions import exp as exp
from mpiparallel.ops.elementwise_functions import floor as floor
from mpiparallel.ops.elementwise_functions import floor_div as floor_div
from mpiparallel.ops.elementwise_functions import floor_mod as floor_mod
from mpiparallel.ops.elementwise_functions import gelu as gelu
from mpiparallel.ops.elementwise_functions import greater as greater
from mpiparallel.ops.elementwise_functions import greater_equal as greater_equal
from mpiparallel.ops.elementwise_functions import less as less
from mpiparallel.ops.elementwise_functions import less_equal as less_equal
from mpiparallel.ops.elementwise_functions import log as log
from mpiparallel.ops.elementwise_functions import logical_and as logical_and
from mpiparallel.ops.elementwise_functions import logical_not as logical_not
from mpiparallel.ops.elementwise_functions import logical_or as logical_or
from mpiparallel.ops.elementwise_functions import masked_fill as masked_fill
from mpiparallel.ops.elementwise_functions import maximum as maximum
from mpiparallel.ops.elementwise_functions import minimum as minimum
from mpiparallel.ops.elementwise_functions import mul as mul
from mpiparallel.ops.elementwise_functions import neg as neg
from mpiparallel.ops.elementwise_functions import not_equal as not_equal
from mpiparallel.ops.elementwise_functions import pow as pow
from mpiparallel.ops.elementwise_functions import reciprocal as reciprocal
from mpiparallel.ops.elementwise_functions import relu as relu
from mpiparallel.ops.elementwise_functions import rsqrt as rsqrt
from mpiparallel.ops.elementwise_functions import select as select
from mpiparallel.ops.elementwise_functions import sigmoid as sigmoid
from mpiparallel.ops.elementwise_functions import sign as sign
from mpiparallel.ops.elementwise_functions import sin as sin
from mpiparallel.ops.elementwise_functions import sqrt as sqrt
from mpiparallel.ops.elementwise_functions import square as square
from mpiparallel.ops.elementwise_functions import sub as sub
from mpiparallel.ops.elementwise_functions import tanh as tanh
from mpiparallel.ops.elementwise_functions import where as where
from mpiparallel.ops.gradient import grad as grad
from mpiparallel.ops.gradient import value_and_grad as value_and_grad
from mpiparallel.ops.loss_functions import binary_cross_entropy as binary_cross_entropy
from mpiparallel.ops.loss_functions import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from mpiparallel.ops.loss_functions import cross_entropy as cross_entropy
from mpiparallel.ops.loss_functions import huber_loss as huber_loss
from mpiparallel.ops.loss_functions import kl_div as kl_div
from mpiparallel.ops.loss_functions import l1_loss as l1_loss
from mpiparallel.ops.loss_functions import mse_loss as mse_loss
from mpiparallel.ops.loss_functions import nll_loss as nll_loss
from mpiparallel.ops.loss_functions import smooth_l1_loss as smooth_l1_loss
from mpiparallel.ops.row_functions import adaptive_avg_pool2d as adaptive_avg_pool2d
from mpiparallel.ops.row_functions import addn as addn
from mpiparallel.ops.row_functions import argmax as argmax
from mpiparallel.ops.row_functions import argmin as argmin
from mpiparallel.ops.row_functions import bias_add as bias_add
from mpiparallel.ops.row_functions import cumsum as cumsum
from mpiparallel.ops.row_functions import reduce_all as reduce_all
from mpiparallel.ops.row_functions import reduce_any as reduce_any
from mpiparallel.ops.row_functions import reduce_prod as reduce_prod
from mpiparallel.ops.row_functions import topk as topk
from mpiparallel.ops.shape_functions import broadcast_to as broadcast_to
from mpiparallel.ops.shape_functions import concat as concat
from mpiparallel.ops.shape_functions import expand_dims as expand_dims
from mpiparallel.ops.shape_functions import flatten as flatten
from mpiparallel.ops.shape_functions import pad as pad
from mpiparallel.ops.shape_functions import reshape as reshape
from mpiparallel.ops.shape_functions import slice as slice
from mpiparallel.ops.shape_functions import split as split
from mpiparallel.ops.shape_functions import squeeze as squeeze
from mpiparallel.ops.shape_functions import stack as stack
from mpiparallel.ops.shape_functions import strided_slice as strided_slice
from mpiparallel.ops.shape_functions import tile as tile
from mpiparallel.ops.shape_functions import transpose as transpose
from mpiparallel.ops.shape_functions import unstack as unstack
from mpiparallel.ops.tensor_functions import addmm as addmm
from mpiparallel.ops.tensor_functions import all as all
from mpiparallel.ops.tensor_functions import amax as amax
from mpiparallel.ops.tensor_functions import amin as amin
from mpiparallel.ops.tensor_functions import any as any
from mpiparallel.ops.tensor_functions import bmm as bmm
from mpiparallel.ops.tensor_functions import chunk as chunk
from mpiparallel.ops.tensor_functions import clamp as clamp
from mpiparallel.ops.tensor_functions import clip as clip
from mpiparallel.ops.tensor_functions import dense as dense
from mpiparallel.ops.tensor_functions import expand as expand
from mpiparallel.ops.tensor_functions import index_select as index_select
from mpiparallel.ops.tensor_functions import isclose as isclose
from mpiparallel.ops.tensor_functions import isfinite as isfinite
from mpiparallel.ops.tensor_functions import isnan as isnan
from mpiparallel.ops.tensor_functions import lerp as lerp
from mpiparallel.ops.tensor_functions import logical_xor as logical_xor
from mpiparallel.ops.tensor_functions import logsumexp as logsumexp
from mpiparallel.ops.tensor_functions import max as max
from mpiparallel.ops.tensor_functions import min as min
from mpiparallel.ops.tensor_functions import mm as mm
from mpiparallel.ops.tensor_functions import moveaxis as moveaxis
from mpiparallel.ops.tensor_functions import narrow as narrow
from mpiparallel.ops.tensor_functions import norm as norm
from mpiparallel.ops.tensor_functions import numel as numel
from mpiparallel.ops.tensor_functions import permute as permute
from mpiparallel.ops.tensor_functions import prod as prod
from mpiparallel.ops.tensor_functions import std as std
from mpiparallel.ops.tensor_functions import sum as sum
from mpiparallel.ops.tensor_functions import swapaxes as swapaxes
from mpiparallel.ops.tensor_functions import swapdims as swapdims
from mpiparallel.ops.tensor_functions import unbind as unbind
from mpiparallel.ops.tensor_functions import unsqueeze as unsqueeze
from mpiparallel.ops.tensor_functions import var as var
from mpiparallel.remark import no_effect


def _apply(operator: Any, *inputs: Any) -> Tensor:
    result: Tensor = operator(*inputs)
    return result


def tensor(
    input_data: Any = None,
    dtype: Any = None,
    shape: Sequence[int] | None = None,
    init: Any = None,
    const_arg: bool = False,
    device: str | None = None,
) -> Tensor:
    """Return a tensor, as ``Tensor`` makes it; the last two arguments change nothing, as a remark says."""
    no_effect("tensor", "const_arg", const_arg, "a tensor that a network is given is its input", default=False)
    no_effect("tensor", "device", device, "a tensor goes to the device of the network that takes it")
    return Tensor(input_data, dtype, shape, init)


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """Return a tensor of an array's values, in its memory."""
    return Tensor.from_numpy(array)


def is_tensor(obj: Any) -> bool:
    """Return whether an object is a tensor."""
    return isinstance(obj, Tensor)


def scalar_to_tensor(input_x: Any, dtype: Any = np.float32) -> Tensor:
    """Return a number as a 0-d tensor of ``dtype``."""
    return Tensor(np.asarray(input_x, np.dtype(dtype)))


def scalar_to_array(input_x: Any) -> Tensor:
    """Return a number as a 0-d tensor of its own dtype; Python floats become float32."""
    return Tensor(input_x)


def shape(input_x: Any) -> tuple[int, ...]:
    """Return the extents of the whole tensor, in elements."""
    return operations.Shape()(input_x)


def rank(input_x: Any) -> int:
    """Return the number of dims."""
    return operations.Rank()(input_x)


def size(input_x: Any) -> int:
    """Return the number of elements of the whole tensor."""
    return operations.Size()(input_x)


def dtype(input_x: Any) -> Type:
    """Return the type of an element."""
    return operations.DType()(input_x)


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


def softmax(input: Any, axis: int = -1, *, dtype: Any = None) -> Tensor:
    """Return ``exp(input) / sum(exp(input))`` along dim ``axis``, computed in ``dtype`` where one is given."""
    return _apply(operations.Softmax(axis), input if dtype is None else Tensor(input).astype(dtype))


def log_softmax(logits: Any, axis: int = -1) -> Tensor:
    """Return the logarithm of softmax along dim ``axis``."""
    return _apply(operations.LogSoftmax(axis), logits)


def layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """Return ``input`` normalised over its last dims, those of ``normalized_shape``, times ``weight`` plus ``bias``.

    Without them it is not scaled and not moved. Raises ShapeError for another ``normalized_shape``.
    """
    first = rank(input) - len(normalized_shape)
    if shape(input)[first:] != tuple(normalized_shape):
        raise ShapeError(f"layer_norm: normalized_shape {normalized_shape} must be the last dims of {shape(input)}")
    dtype = operations.DType()(input)
    scale = np.ones(normalized_shape, dtype) if weight is None else weight
    shift = np.zeros(normalized_shape, dtype) if bias is None else bias
    output: Tensor = operations.LayerNorm(first, first, eps)(input, scale, shift)[0]
    return output


def gather(input_params: Any, input_indices: Any, axis: int = 0, batch_dims: int = 0) -> Tensor:
    """Return the slices of ``input_params`` along dim ``axis`` at ``input_indices``, by table of a batch."""
    return _apply(operations.Gather(batch_dims), input_params, input_indices, axis)


def one_hot(indices: Any, depth: int, on_value: Any = 1, off_value: Any = 0, axis: int = -1) -> Tensor:
    """Return ``on_value`` at each index along a new dim of ``depth`` elements, ``off_value`` elsewhere."""
    return _apply(operations.OneHot(axis), indices, depth, on_value, off_value)


def dropout(input: Any, p: float = 0.5, training: bool = True, seed: int | None = None) -> Tensor:
    """Return ``input`` with each element zeroed at probability ``p``, the others divided by ``1 - p``.

    Without ``training`` it is ``input``. Another ``seed`` draws other elements.
    """
    x = input if isinstance(input, Tensor) else Tensor(input)
    if not training or p == 0.0:
        return x
    output: Tensor = operations.Dropout(1.0 - p, seed or 0)(x)[0]
    return output


def cast(input: Any, dtype: Any) -> Tensor:
    """Return the tensor with elements of another dtype."""
    return _apply(operations.Cast(), input, dtype)


def depend(value: Any, expr: Any) -> Any:
    """Return ``value``; what ``expr`` comes from has been done by then, as everything is in the order it is written."""
    return value


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


cat = concat
subtract = sub
multiply = mul
divide = div
true_divide = div
floor_divide = floor_div
absolute = abs
negative = neg
eq = equal
ne = not_equal
lt = less
le = less_equal
gt = greater
ge = greater_equal

if not TYPE_CHECKING:
    __getattr__ = getattr_of(__name__)
