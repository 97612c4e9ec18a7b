"""MindSpore's functions that apply an operator which takes more than tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel.errors import ShapeError
from mpiparallel.graph.own_operators import Cast
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.application import applied
from mpiparallel.ops.functions.conversions import rank, shape
from mpiparallel.ops.indexing.gathering import Gather
from mpiparallel.ops.indexing.one_hot_encoding import OneHot
from mpiparallel.ops.losses.softmax_and_log import LogSoftmax, Softmax
from mpiparallel.ops.normalization.layer_normalization import LayerNorm
from mpiparallel.ops.randomness.dropout_mask import Dropout
from mpiparallel.ops.shapes.constant import StopGradient
from mpiparallel.ops.shapes.inspection import DType
from mpiparallel.ops.variables.assignment import Assign, AssignAdd, AssignSub


def softmax(input: Any, axis: int = -1, *, dtype: Any = None) -> Tensor:
    """Return ``exp(input) / sum(exp(input))`` along dim ``axis``, computed in ``dtype`` where one is given.

    Parameters
    ----------
    input : Tensor or array
        Floating point, of at least one dim.
    axis : int
        The dim, which is never cut.
    dtype : dtype, optional
        In which it is computed.

    Returns
    -------
    Tensor
        Of the same shape; its sums along ``axis`` are 1.

    Raises
    ------
    ShapeError
        When there is no such dim.

    Examples
    --------
    >>> softmax(Tensor([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    return applied(Softmax(axis), input if dtype is None else Tensor(input).astype(dtype))


def log_softmax(logits: Any, axis: int = -1) -> Tensor:
    """Return the logarithm of softmax along dim ``axis``.

    Parameters
    ----------
    logits : Tensor or array
        Floating point, of at least one dim.
    axis : int
        The dim, which is never cut.

    Returns
    -------
    Tensor
        Of the same shape and dtype.

    Raises
    ------
    ShapeError
        When there is no such dim.

    Examples
    --------
    >>> [round(one, 4) for one in log_softmax(Tensor([0.0, 0.0])).tolist()]
    [-0.6931, -0.6931]
    """
    return applied(LogSoftmax(axis), logits)


def layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """Return ``input`` normalised over its last dims, those of ``normalized_shape``, times ``weight`` plus ``bias``.

    Parameters
    ----------
    input : Tensor or array
        Floating point.
    normalized_shape : sequence of int
        The last dims of ``input``, which are never cut.
    weight, bias : Tensor or array, optional
        Of ``normalized_shape``; without them it is not scaled and not moved.
    eps : float
        What is added to the variance.

    Returns
    -------
    Tensor
        Of the same shape and dtype.

    Raises
    ------
    ShapeError
        When ``normalized_shape`` is not that of the last dims.

    Examples
    --------
    >>> [round(one, 4) for one in layer_norm(Tensor([1.0, 3.0]), (2,)).tolist()]
    [-1.0, 1.0]
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
    """Return the slices of ``input_params`` along dim ``axis`` at ``input_indices``, by table of a batch.

    Parameters
    ----------
    input_params : Tensor or array
        The table, of any shape and dtype.
    input_indices : Tensor or array
        Integers of any shape.
    axis : int
        The dim of the table that they count.
    batch_dims : int
        How many leading dims both have alike: each of these has a table of its own.

    Returns
    -------
    Tensor
        Of the shape of the table with that of the indices in place of ``axis``.

    Examples
    --------
    >>> gather(Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([1, 0]), 0).tolist()
    [[3.0, 4.0], [1.0, 2.0]]
    """
    return applied(Gather(batch_dims), input_params, input_indices, axis)


def one_hot(indices: Any, depth: int, on_value: Any = 1, off_value: Any = 0, axis: int = -1) -> Tensor:
    """Return ``on_value`` at each index along a new dim of ``depth`` elements, ``off_value`` elsewhere.

    Parameters
    ----------
    indices : Tensor or array
        Integers of any shape.
    depth : int
        Elements of the new dim.
    on_value, off_value : Tensor or number
        Their common dtype is that of the output.
    axis : int
        The place of the new dim, -1 for the last.

    Returns
    -------
    Tensor
        With one dim more than ``indices``.

    Examples
    --------
    >>> one_hot(Tensor([1, 0]), 3).tolist()
    [[0, 1, 0], [1, 0, 0]]
    """
    return applied(OneHot(axis), indices, depth, on_value, off_value)


def dropout(input: Any, p: float = 0.5, training: bool = True, seed: int | None = None) -> Tensor:
    """Return ``input`` with each element zeroed at probability ``p``, the others divided by ``1 - p``.

    Parameters
    ----------
    input : Tensor or array
        Floating point, of any shape.
    p : float
        At least 0 and below 1.
    training : bool
        Whether anything is zeroed.
    seed : int, optional
        Another one draws other elements.

    Returns
    -------
    Tensor
        Of the same shape and dtype.

    Notes
    -----
    Which elements are zeroed depends on seed, draw and place in the whole tensor, never on the cut.

    Examples
    --------
    >>> dropout(Tensor([1.0, 2.0]), training=False).tolist()
    [1.0, 2.0]
    """
    x = input if isinstance(input, Tensor) else Tensor(input)
    if not training or p == 0.0:
        return x
    output: Tensor = Dropout(1.0 - p, seed or 0)(x)[0]
    return output


def cast(input: Any, dtype: Any) -> Tensor:
    """Return the tensor with elements of another dtype.

    Parameters
    ----------
    input : Tensor, array or number
        Of any shape.
    dtype : dtype
        MindSpore's or NumPy's.

    Returns
    -------
    Tensor
        Of the same shape.

    Examples
    --------
    >>> cast(Tensor([1.7, -1.7]), np.int32).tolist()
    [1, -1]
    """
    return applied(Cast(), input, dtype)


def depend(value: Any, expr: Any) -> Any:
    """Return ``value``; what ``expr`` comes from has been done by then, as everything is in the order it is written.

    Parameters
    ----------
    value : object
        What is returned.
    expr : object
        What is to have been computed.

    Returns
    -------
    object
        ``value``.

    Examples
    --------
    >>> depend(1, 2)
    1
    """
    return value


def stop_gradient(value: Any) -> Tensor:
    """Return the tensor itself, with no gradient.

    Parameters
    ----------
    value : Tensor or array
        Of any shape and dtype.

    Returns
    -------
    Tensor
        Of the same shape and dtype.

    Examples
    --------
    >>> stop_gradient(Tensor([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    return applied(StopGradient(), value)


def assign(variable: Parameter, value: Any) -> None:
    """Overwrite a parameter with a value of its shape, or 0-d.

    Parameters
    ----------
    variable : Parameter
        What is overwritten.
    value : Tensor, array or number
        Of the parameter's shape, or 0-d.

    Examples
    --------
    >>> weight = Parameter(np.zeros(2), "weight")
    >>> assign(weight, np.ones(2))
    >>> weight.asnumpy().tolist()
    [1.0, 1.0]
    """
    Assign()(variable, value)


def assign_add(variable: Parameter, value: Any) -> None:
    """Add to a parameter a value of its shape, or 0-d.

    Parameters
    ----------
    variable : Parameter
        What is changed.
    value : Tensor, array or number
        Of the parameter's shape, or 0-d.

    Examples
    --------
    >>> weight = Parameter(np.ones(2), "weight")
    >>> assign_add(weight, 2.0)
    >>> weight.asnumpy().tolist()
    [3.0, 3.0]
    """
    AssignAdd()(variable, value)


def assign_sub(variable: Parameter, value: Any) -> None:
    """Subtract from a parameter a value of its shape, or 0-d.

    Parameters
    ----------
    variable : Parameter
        What is changed.
    value : Tensor, array or number
        Of the parameter's shape, or 0-d.

    Examples
    --------
    >>> weight = Parameter(np.ones(2), "weight")
    >>> assign_sub(weight, 2.0)
    >>> weight.asnumpy().tolist()
    [-1.0, -1.0]
    """
    AssignSub()(variable, value)
