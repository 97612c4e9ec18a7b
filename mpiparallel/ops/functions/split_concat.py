"""MindSpore's functions that put tensors together, and cut them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops import operations
from mpiparallel.ops.application import applied


def concat(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Return tensors put one after another along dim ``axis``.

    Parameters
    ----------
    tensors : sequence of Tensor
        Alike in all dims but ``axis``.
    axis : int
        The dim, which is never cut.

    Returns
    -------
    Tensor
        Of their common dtype.

    Raises
    ------
    ShapeError
        When they do not fit, or there is no such dim.

    Examples
    --------
    >>> concat([Tensor([1.0]), Tensor([2.0, 3.0])]).tolist()
    [1.0, 2.0, 3.0]
    """
    return applied(operations.Concat(axis), tensors)


def stack(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Return tensors of one shape put one after another along a new dim ``axis``.

    Parameters
    ----------
    tensors : sequence of Tensor
        Of one shape.
    axis : int
        The place of the new dim.

    Returns
    -------
    Tensor
        Of their common dtype.

    Raises
    ------
    ShapeError
        When they do not fit, or there is no such dim.

    Examples
    --------
    >>> stack([Tensor([1.0, 2.0]), Tensor([3.0, 4.0])]).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return applied(operations.Stack(axis), tensors)


def unstack(input_x: Any, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the slices of a tensor along dim ``axis``, without that dim.

    Parameters
    ----------
    input_x : Tensor or array
        Of any dtype.
    axis : int
        The dim.

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
    >>> [row.tolist() for row in unstack(Tensor([[1.0, 2.0], [3.0, 4.0]]))]
    [[1.0, 2.0], [3.0, 4.0]]
    """
    pieces: tuple[Tensor, ...] = operations.Unstack(axis)(input_x)
    return pieces


def split(
    tensor: Any, split_size_or_sections: Any = None, axis: int = 0, output_num: int | None = None
) -> tuple[Tensor, ...]:
    """Return pieces along a dim.

    Parameters
    ----------
    tensor : Tensor or array
        Of any dtype.
    split_size_or_sections : int or sequence of int, optional
        The elements of each piece, the last having what is left; or those of each in turn.
    axis : int
        The dim.
    output_num : int, optional
        How many equal pieces, instead.

    Returns
    -------
    tuple of Tensor
        Of the same dtype.

    Raises
    ------
    ConfigurationError
        Unless one of ``split_size_or_sections`` and ``output_num`` is given.

    Examples
    --------
    >>> [piece.shape for piece in split(Tensor([1.0, 2.0, 3.0]), 2)]
    [(2,), (1,)]
    """
    if (split_size_or_sections is None) == (output_num is None):
        raise ConfigurationError("split: give split_size_or_sections, or output_num for so many equal pieces")
    if output_num is None:
        return (tensor if isinstance(tensor, Tensor) else Tensor(tensor)).split(split_size_or_sections, axis)
    pieces: tuple[Tensor, ...] = operations.Split(axis, output_num)(tensor)
    return pieces


def slice(input_x: Any, begin: Sequence[int], size: Sequence[int]) -> Tensor:
    """Return ``size[d]`` elements of each dim ``d`` from ``begin[d]`` on, all that are left where the size is -1.

    Parameters
    ----------
    input_x : Tensor or array
        Of any shape and dtype.
    begin, size : sequence of int
        In elements, for each dim.

    Returns
    -------
    Tensor
        Of the same dtype.

    Raises
    ------
    ShapeError
        When there are no such elements.

    Examples
    --------
    >>> slice(Tensor([[1.0, 2.0], [3.0, 4.0]]), (0, 1), (2, 1)).tolist()
    [[2.0], [4.0]]
    """
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

    Parameters
    ----------
    input_x : Tensor or array
        Of any shape and dtype.
    begin, end, strides : sequence of int
        In elements, for each dim.
    begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask : int
        As for ``StridedSlice``.

    Returns
    -------
    Tensor
        Of the same dtype.

    Examples
    --------
    >>> strided_slice(Tensor([1.0, 2.0, 3.0, 4.0]), (0,), (4,), (2,)).tolist()
    [1.0, 3.0]
    """
    operator = operations.StridedSlice(begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    return applied(operator, input_x, tuple(begin), tuple(end), tuple(strides))


cat = concat
