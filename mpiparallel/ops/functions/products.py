"""MindSpore's functions that are products of matrices."""

from __future__ import annotations

from typing import Any

from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops import operations
from mpiparallel.ops.application import applied, as_tensor
from mpiparallel.ops.functions.conversions import rank
from mpiparallel.ops.functions.shapes import expand_dims, squeeze
from mpiparallel.ops.matrix_product import BatchMatMul, MatMul


def matmul(input: Any, other: Any) -> Tensor:
    """Return the matrix product of the last two dims, with broadcasting of the others; 1-d tensors are vectors.

    Parameters
    ----------
    input : Tensor or array
        (..., m, k), or (k,).
    other : Tensor or array
        (..., k, n), or (k,).

    Returns
    -------
    Tensor
        (..., m, n), without m and n where the input had no such dim.

    Raises
    ------
    ShapeError
        When they do not fit.

    Notes
    -----
    Where k is cut each rank has a term, and an AllReduce puts them together.

    Examples
    --------
    >>> matmul(Tensor([[1.0, 2.0]]), Tensor([3.0, 4.0])).tolist()
    [11.0]
    """
    x = expand_dims(input, 0) if rank(input) == 1 else input
    y = expand_dims(other, 1) if rank(other) == 1 else other
    product = applied(MatMul() if rank(x) == rank(y) == 2 else BatchMatMul(), x, y)
    if rank(other) == 1:
        product = squeeze(product, -1)
    return squeeze(product, -1 if rank(other) == 1 else -2) if rank(input) == 1 else product


def mm(input: Any, mat2: Any) -> Tensor:
    """Return the product of two matrices.

    Parameters
    ----------
    input : Tensor or array
        (m, k).
    mat2 : Tensor or array
        (k, n).

    Returns
    -------
    Tensor
        (m, n).

    Raises
    ------
    ShapeError
        When they do not fit.

    Examples
    --------
    >>> mm(Tensor([[1.0, 2.0]]), Tensor([[3.0], [4.0]])).tolist()
    [[11.0]]
    """
    return as_tensor(input).matmul(mat2)


def bmm(input_x: Any, mat2: Any) -> Tensor:
    """Return the products of matrices, one a row.

    Parameters
    ----------
    input_x : Tensor or array
        (b, m, k).
    mat2 : Tensor or array
        (b, k, n).

    Returns
    -------
    Tensor
        (b, m, n).

    Raises
    ------
    ShapeError
        When they do not fit.

    Examples
    --------
    >>> bmm(Tensor([[[1.0, 2.0]]]), Tensor([[[3.0], [4.0]]])).tolist()
    [[[11.0]]]
    """
    return as_tensor(input_x).matmul(mat2)


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return ``beta * input + alpha * mat1 @ mat2``.

    Parameters
    ----------
    input : Tensor or array
        Of a shape that broadcasts to (m, n).
    mat1, mat2 : Tensor or array
        (m, k) and (k, n).
    beta, alpha : float
        The factors.

    Returns
    -------
    Tensor
        (m, n).

    Raises
    ------
    ShapeError
        When they do not fit.

    Examples
    --------
    >>> addmm(Tensor([[1.0]]), Tensor([[1.0, 2.0]]), Tensor([[3.0], [4.0]]), beta=2.0).tolist()
    [[13.0]]
    """
    return as_tensor(input) * beta + as_tensor(mat1).matmul(mat2) * alpha


def dense(input: Any, weight: Any, bias: Any = None) -> Tensor:
    """Return ``input @ weight.T + bias`` along the last dim of ``input``.

    Parameters
    ----------
    input : Tensor or array
        (..., in_channels).
    weight : Tensor or array
        (out_channels, in_channels).
    bias : Tensor or array, optional
        (out_channels,).

    Returns
    -------
    Tensor
        (..., out_channels).

    Raises
    ------
    ShapeError
        When they do not fit.

    Examples
    --------
    >>> dense(Tensor([[1.0, 2.0]]), Tensor([[3.0, 4.0]]), Tensor([1.0])).tolist()
    [[12.0]]
    """
    x = as_tensor(input)
    rows = x if x.ndim == 2 else x.reshape((-1, x.shape[-1]))
    product: Tensor = operations.MatMul(transpose_b=True)(rows, weight)
    out = product if bias is None else product + bias
    return out if x.ndim == 2 else out.reshape((*x.shape[:-1], out.shape[-1]))
