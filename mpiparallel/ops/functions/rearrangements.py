"""MindSpore's functions that are methods of tensors: dims exchanged, pieces along a dim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.application import as_tensor


def permute(input: Any, axis: Sequence[int]) -> Tensor:
    """Return the tensor with dims permuted.

    Parameters
    ----------
    input : Tensor or array
        Of any shape and dtype.
    axis : sequence of int
        The place in the input of each dim of the output.

    Returns
    -------
    Tensor
        Of the same dtype.

    Raises
    ------
    ShapeError
        When it is no permutation of the dims.

    Examples
    --------
    >>> permute(Tensor([[[1.0, 2.0, 3.0]]]), (2, 0, 1)).shape
    (3, 1, 1)
    """
    return as_tensor(input).transpose(tuple(axis))


def swapaxes(input: Any, axis0: int, axis1: int) -> Tensor:
    """Return the tensor with two dims exchanged.

    Parameters
    ----------
    input : Tensor or array
        Of any shape and dtype.
    axis0, axis1 : int
        The dims.

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
    >>> swapaxes(Tensor([[1.0, 2.0, 3.0]]), 0, 1).shape
    (3, 1)
    """
    return as_tensor(input).swapaxes(axis0, axis1)


def swapdims(input: Any, dim0: int, dim1: int) -> Tensor:
    """Return the tensor with two dims exchanged.

    Parameters
    ----------
    input : Tensor or array
        Of any shape and dtype.
    dim0, dim1 : int
        The dims.

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
    >>> swapdims(Tensor([[1.0, 2.0, 3.0]]), 0, 1).shape
    (3, 1)
    """
    return as_tensor(input).swapaxes(dim0, dim1)


def moveaxis(x: Any, source: int, destination: int) -> Tensor:
    """Return the tensor with dim ``source`` in the place of ``destination``.

    Parameters
    ----------
    x : Tensor or array
        Of any shape and dtype.
    source, destination : int
        The dim, and its place among the others.

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
    >>> moveaxis(Tensor([[[1.0, 2.0, 3.0]]]), 2, 0).shape
    (3, 1, 1)
    """
    return as_tensor(x).moveaxis(source, destination)


def unsqueeze(input: Any, dim: int) -> Tensor:
    """Return the tensor with a new dim of one element at ``dim``.

    Parameters
    ----------
    input : Tensor or array
        Of any shape and dtype.
    dim : int
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
    >>> unsqueeze(Tensor([1.0, 2.0]), 0).shape
    (1, 2)
    """
    return as_tensor(input).expand_dims(dim)


def expand(input_x: Any, size: Sequence[int]) -> Tensor:
    """Return the tensor repeated along its dims of one element to a shape; -1 keeps an extent.

    Parameters
    ----------
    input_x : Tensor or array
        Of any shape and dtype.
    size : sequence of int
        The shape of the output.

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
    >>> expand(Tensor([[1.0], [2.0]]), (-1, 3)).shape
    (2, 3)
    """
    return as_tensor(input_x).expand(tuple(size))


def unbind(input: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Return the slices along a dim, without that dim.

    Parameters
    ----------
    input : Tensor or array
        Of any shape and dtype.
    dim : int
        Along which it is taken apart.

    Returns
    -------
    tuple of Tensor
        As many as the dim has elements.

    Raises
    ------
    ShapeError
        When there is no such dim.

    Examples
    --------
    >>> [row.tolist() for row in unbind(Tensor([[1.0, 2.0], [3.0, 4.0]]))]
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return as_tensor(input).unbind(dim)


def narrow(input: Any, axis: int, start: int, length: int) -> Tensor:
    """Return ``length`` elements along a dim from ``start`` on.

    Parameters
    ----------
    input : Tensor or array
        Of any shape and dtype.
    axis : int
        The dim.
    start, length : int
        Of the elements that are taken; of fewer, where there are no more.

    Returns
    -------
    Tensor
        Of the same dtype.

    Examples
    --------
    >>> narrow(Tensor([1.0, 2.0, 3.0]), 0, 1, 2).tolist()
    [2.0, 3.0]
    """
    return as_tensor(input).narrow(axis, start, length)


def chunk(input: Any, chunks: int, axis: int = 0) -> tuple[Tensor, ...]:
    """Return ``chunks`` pieces along a dim, the last smaller or missing where they do not fit.

    Parameters
    ----------
    input : Tensor or array
        Of any shape and dtype.
    chunks : int
        How many at most.
    axis : int
        The dim.

    Returns
    -------
    tuple of Tensor
        Of the same dtype.

    Raises
    ------
    ShapeError
        When there is no such dim.

    Examples
    --------
    >>> [piece.tolist() for piece in chunk(Tensor([1.0, 2.0, 3.0]), 2)]
    [[1.0, 2.0], [3.0]]
    """
    return as_tensor(input).chunk(chunks, axis)


def index_select(input: Any, axis: int, index: Any) -> Tensor:
    """Return the slices along a dim at a row of indices.

    Parameters
    ----------
    input : Tensor or array
        Of any shape and dtype.
    axis : int
        The dim.
    index : Tensor or array
        Integers, of one dim.

    Returns
    -------
    Tensor
        Along ``axis`` as long as ``index``.

    Examples
    --------
    >>> index_select(Tensor([[1.0, 2.0], [3.0, 4.0]]), 0, Tensor([1, 1])).tolist()
    [[3.0, 4.0], [3.0, 4.0]]
    """
    return as_tensor(input).index_select(axis, index)
