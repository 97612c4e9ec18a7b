"""MindSpore's functions between Python and tensors: tensors of given values, and what a tensor tells of itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.dtype import Type
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.shapes.inspection import DType, Rank, Shape, Size


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
    """Return a number as a 0-d tensor of ``dtype``.

    Parameters
    ----------
    input_x : number
        Python's or NumPy's.
    dtype : dtype
        Of the tensor.

    Returns
    -------
    Tensor
        0-d.

    Examples
    --------
    >>> scalar_to_tensor(3).dtype
    mpiparallel.float32
    """
    return Tensor(np.asarray(input_x, np.dtype(dtype)))


def scalar_to_array(input_x: Any) -> Tensor:
    """Return a number as a 0-d tensor of its own dtype; Python floats become float32.

    Parameters
    ----------
    input_x : number
        Python's or NumPy's.

    Returns
    -------
    Tensor
        0-d.

    Examples
    --------
    >>> scalar_to_array(3.0).shape
    ()
    """
    return Tensor(input_x)


def shape(input_x: Any) -> tuple[int, ...]:
    """Return the extents of the whole tensor, in elements.

    Parameters
    ----------
    input_x : Tensor or array
        Of any dtype.

    Returns
    -------
    tuple of int
        However it is cut.

    Examples
    --------
    >>> shape(Tensor([[1.0, 2.0]]))
    (1, 2)
    """
    return Shape()(input_x)


def rank(input_x: Any) -> int:
    """Return the number of dims.

    Parameters
    ----------
    input_x : Tensor or array
        Of any dtype.

    Returns
    -------
    int
        0 for a number.

    Examples
    --------
    >>> rank(Tensor([[1.0, 2.0]]))
    2
    """
    return Rank()(input_x)


def size(input_x: Any) -> int:
    """Return the number of elements of the whole tensor.

    Parameters
    ----------
    input_x : Tensor or array
        Of any dtype.

    Returns
    -------
    int
        However it is cut.

    Examples
    --------
    >>> size(Tensor([[1.0, 2.0]]))
    2
    """
    return Size()(input_x)


def dtype(input_x: Any) -> Type:
    """Return the type of an element.

    Parameters
    ----------
    input_x : Tensor or array
        Of any shape.

    Returns
    -------
    Type
        MindSpore's name for it; NumPy takes it for its own.

    Examples
    --------
    >>> dtype(Tensor([1.0]))
    mpiparallel.float32
    """
    return DType()(input_x)
