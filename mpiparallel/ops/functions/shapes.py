"""MindSpore's functions that give a tensor another shape: dims joined, exchanged, repeated, padded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel.compatibility.arguments import only
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops import operations
from mpiparallel.ops.application import applied
from mpiparallel.ops.images.edge_padding import padding_pairs


def reshape(input: Any, shape: Any) -> Tensor:
    """Return the elements in the same order in another shape; one extent may be -1.

    Parameters
    ----------
    input : Tensor or array
        Of any shape and dtype.
    shape : int or tuple of int
        As many elements.

    Returns
    -------
    Tensor
        Of the same dtype.

    Raises
    ------
    ShapeError
        When the shapes have other numbers of elements.

    Examples
    --------
    >>> reshape(Tensor([[1.0, 2.0], [3.0, 4.0]]), (-1,)).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    return applied(operations.Reshape(), input, shape)


def flatten(input: Any, order: str = "C", *, start_dim: int = 1, end_dim: int = -1) -> Tensor:
    """Return the tensor with dims ``start_dim`` to ``end_dim`` as one: by default (n, ...) as n rows.

    Parameters
    ----------
    input : Tensor or array
        Of any shape and dtype.
    order : str
        "C", the order of elements.
    start_dim, end_dim : int
        The dims.

    Returns
    -------
    Tensor
        Of the same dtype.

    Raises
    ------
    ConfigurationError
        For another ``order``.
    ShapeError
        When there are no such dims.

    Examples
    --------
    >>> flatten(Tensor([[[1.0], [2.0]], [[3.0], [4.0]]])).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    only("flatten", "order", order, "C")
    x = input if isinstance(input, Tensor) else Tensor(input)
    if (start_dim, end_dim) == (1, -1) or not x.ndim:
        return applied(operations.Flatten(), x)
    return x.flatten(start_dim, end_dim)


def transpose(input: Any, input_perm: Any) -> Tensor:
    """Return the tensor with dims permuted: dim ``d`` of the output is dim ``input_perm[d]`` of the input.

    Parameters
    ----------
    input : Tensor or array
        Of any shape and dtype.
    input_perm : sequence of int
        A permutation of the dims.

    Returns
    -------
    Tensor
        Of the same dtype.

    Raises
    ------
    ShapeError
        When it is none.

    Examples
    --------
    >>> transpose(Tensor([[1.0, 2.0], [3.0, 4.0]]), (1, 0)).tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """
    return applied(operations.Transpose(), input, input_perm)


def broadcast_to(input: Any, shape: Any) -> Tensor:
    """Return the tensor repeated along its dims of one element, and along new leading dims, to ``shape``.

    Parameters
    ----------
    input : Tensor or array
        Of any shape and dtype.
    shape : sequence of int
        That of the output; -1 keeps an extent.

    Returns
    -------
    Tensor
        Of the same dtype.

    Raises
    ------
    ShapeError
        When it does not broadcast to that shape.

    Examples
    --------
    >>> broadcast_to(Tensor([1.0, 2.0]), (2, 2)).tolist()
    [[1.0, 2.0], [1.0, 2.0]]
    """
    return applied(operations.BroadcastTo(shape), input)


def expand_dims(input_x: Any, axis: int) -> Tensor:
    """Return the tensor with a new dim of one element at ``axis``.

    Parameters
    ----------
    input_x : Tensor or array
        Of any shape and dtype.
    axis : int
        Its place in the output.

    Returns
    -------
    Tensor
        Of the same dtype.

    Raises
    ------
    ShapeError
        When there is no such dim.

    Examples
    --------
    >>> expand_dims(Tensor([1.0, 2.0]), 1).shape
    (2, 1)
    """
    return applied(operations.ExpandDims(), input_x, axis)


def squeeze(input: Any, axis: Any = None) -> Tensor:
    """Return the tensor without its dims ``axis`` of one element, or all such dims when it is None.

    Parameters
    ----------
    input : Tensor or array
        Of any shape and dtype.
    axis : int or tuple of int, optional
        The dims.

    Returns
    -------
    Tensor
        Of the same dtype.

    Raises
    ------
    ShapeError
        When a dim named has more than one element.

    Examples
    --------
    >>> squeeze(Tensor([[1.0, 2.0]])).shape
    (2,)
    """
    return applied(operations.Squeeze(() if axis is None else axis), input)


def tile(input_x: Any, multiples: Sequence[int]) -> Tensor:
    """Return the tensor repeated ``multiples[d]`` times along each dim ``d``.

    Parameters
    ----------
    input_x : Tensor or array
        Of any shape and dtype.
    multiples : sequence of int
        For each dim, of new leading dims too.

    Returns
    -------
    Tensor
        Of the same dtype.

    Examples
    --------
    >>> tile(Tensor([1.0, 2.0]), (2,)).tolist()
    [1.0, 2.0, 1.0, 2.0]
    """
    return applied(operations.Tile(), input_x, multiples)


def pad(input_x: Any, padding: Sequence[Any], mode: str = "constant", value: float | None = None) -> Tensor:
    """Return the tensor with elements of ``value`` around it.

    Parameters
    ----------
    input_x : Tensor or array
        Of any shape and dtype.
    padding : sequence
        A (before, after) for each dim, or one flat row of such numbers that starts with the last dim; in elements.
    mode : str
        "constant".
    value : number, optional
        0 when None.

    Returns
    -------
    Tensor
        Of the same dtype.

    Raises
    ------
    ConfigurationError
        For another mode.

    Examples
    --------
    >>> pad(np.ones((1, 2)), (1, 0)).asnumpy().tolist()
    [[0.0, 1.0, 1.0]]
    """
    if mode != "constant":
        raise ConfigurationError(f"pad: mode {mode!r} is not supported; use 'constant'")
    pairs = padding_pairs(padding, input_x.ndim if hasattr(input_x, "ndim") else np.ndim(input_x))
    return applied(operations.Pad(pairs, 0 if value is None else value), input_x)
