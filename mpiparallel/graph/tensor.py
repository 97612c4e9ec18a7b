"""Tensors: arrays, or values of a network that is being traced."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from mpiparallel.backend.gpu.wait import before_waiting
from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compatibility.absent_names import getattr_of_instances
from mpiparallel.dtype import Type, type_of
from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.execution.late_values import LateValue
from mpiparallel.graph.tensor_operations import TensorOperations
from mpiparallel.graph.user_line import refuse_data_dependence
from mpiparallel.layout.box import Box

DEFAULT_FLOAT = np.dtype(np.float32)


class Initial(Protocol):
    """Where the first values of a tensor come from; each rank asks for its own box only."""

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> np.ndarray[Any, Any]:
        """Return the values of ``box`` of the tensor ``name`` of ``shape``.

        An element's value is the same in every box.
        """


class TracedValue(Protocol):
    """What a tensor stands for in a network that is being traced."""

    @property
    def spec(self) -> TensorSpec:
        """Global shape and dtype."""


class Tensor(TensorOperations):
    """An n-dimensional array with MindSpore's methods.

    While a network is traced, a tensor has a shape and a dtype but no values. A program that asks for them is refused
    with TraceError. ``shape`` is that of the whole tensor, wherever it is cut. What operators do for it is attached by
    ``mpiparallel.ops``.

    Parameters
    ----------
    input_data : number, list, array or Tensor, optional
        Python floats become float32; NumPy arrays keep their dtype, and their memory is shared.
    dtype : dtype, optional
        MindSpore's or NumPy's; the values are cast to it.
    shape : sequence of int, optional
        With ``init``: the shape in elements.
    init : optional
        Where the values come from when they are needed; ``input_data`` is then left out. ``initializer`` makes such
        tensors.

    Raises
    ------
    ConfigurationError
        When neither ``input_data`` nor ``init`` is given.

    Examples
    --------
    >>> Tensor([1.0, 2.0]).asnumpy()
    array([1., 2.], dtype=float32)
    """

    __array_priority__ = 100
    if not TYPE_CHECKING:
        __getattr__ = getattr_of_instances("Tensor")

    name = ""

    _late: LateValue | None = None

    def __init__(
        self,
        input_data: Any = None,
        dtype: Any = None,
        shape: Sequence[int] | None = None,
        init: Initial | None = None,
    ) -> None:
        self._value: TracedValue | None = None
        self._array: Array | None = None
        self._initial = init
        if init is not None:
            extents = () if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
            self._spec = TensorSpec(extents, np.dtype(DEFAULT_FLOAT if dtype is None else dtype))
            return
        if isinstance(input_data, Tensor):
            self._initial = input_data._initial
            if input_data._array is None and dtype is None:
                self._spec, self._value = input_data._spec, input_data._value
                return
            input_data = input_data.array
        if input_data is None:
            raise ConfigurationError("Tensor() needs input_data, or a shape, a dtype and an init")
        array = input_data
        if isinstance(array, np.generic):
            array = np.asarray(array)
        elif not hasattr(array, "dtype"):
            array = np.asarray(input_data)
            if array.dtype == np.float64:
                array = array.astype(DEFAULT_FLOAT)
        self._array = array if dtype is None else array.astype(np.dtype(dtype), copy=False)
        self._spec = TensorSpec(tuple(self._array.shape), np.dtype(self._array.dtype))

    @classmethod
    def of_value(cls, value: TracedValue) -> Tensor:
        """Return the tensor that stands for a value of the traced program."""
        tensor = cls.__new__(cls)
        tensor._value, tensor._array, tensor._initial, tensor._spec = value, None, None, value.spec
        return tensor

    @property
    def value(self) -> TracedValue | None:
        """The value of the traced program that the tensor stands for, if it does."""
        return self._value

    @property
    def initial(self) -> Initial | None:
        """Where the values come from when they are not there yet."""
        return self._initial

    @property
    def has_init(self) -> bool:
        """Whether the values are not there yet, but come from an initializer."""
        return self._array is None and self._initial is not None

    @property
    def spec(self) -> TensorSpec:
        """Global shape and dtype."""
        return self._spec

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of each dim of the whole tensor, in elements."""
        return self._spec.shape

    @property
    def dtype(self) -> Type:
        """The type of an element; it prints as MindSpore's (``Float32``), and NumPy takes it for its own."""
        return type_of(self._spec.dtype)

    @property
    def size(self) -> int:
        """Number of elements of the whole tensor."""
        return self._spec.size

    @property
    def ndim(self) -> int:
        """Number of dims."""
        return len(self.shape)

    def dim(self) -> int:
        """Return the number of dims."""
        return self.ndim

    ndimension = dim

    def numel(self) -> int:
        """Return the number of elements of the whole tensor."""
        return prod(self.shape)

    nelement = numel

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return int(self.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements of the whole tensor."""
        return self.numel() * self.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from an element to the next along each dim, were all in C order."""
        return tuple(self.itemsize * prod(self.shape[dim + 1 :]) for dim in range(self.ndim))

    @property
    def array(self) -> Array:
        """The values, as an array of the backend; TraceError while they are not known."""
        if self._value is not None:
            raise refuse_data_dependence("takes the values")
        if self._array is None:
            self.init_data()
        return self._array

    def init_data(self) -> Tensor:
        """Fill a tensor made with ``init`` and return it."""
        if self._array is None and self._initial is not None:
            part = self._initial.part(self.name, self.shape, Box.whole(self.shape))
            self._array = np.asarray(part, self.spec.dtype)
        return self

    @classmethod
    def arriving(cls, array: Array, late: LateValue | None) -> Tensor:
        """Return the tensor of a result, which may be on its way to the host already."""
        tensor = cls(array)
        tensor._late = late
        return tensor

    @property
    def comes_late(self) -> bool:
        """Whether it is a device's result on its way to the host, so that who reads it at once has to wait."""
        return self._late is not None

    def asnumpy(self) -> np.ndarray[Any, Any]:
        """Return the values as a NumPy array: this rank's slice, where the tensor is cut."""
        array = self.array
        if isinstance(array, np.ndarray):
            return array
        if self._late is not None:
            return self._late.read()
        before_waiting()
        copied: np.ndarray[Any, Any] = array.get()
        return copied

    numpy = asnumpy

    def tolist(self) -> Any:
        """Return the values as nested lists of Python numbers."""
        return self.asnumpy().tolist()

    @staticmethod
    def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
        """Return a tensor of an array's values, in its memory."""
        if not isinstance(array, np.ndarray):
            raise ConfigurationError(f"Tensor.from_numpy: a {type(array).__name__} is no array; use Tensor(...)")
        return Tensor(array)

    def copy(self) -> Tensor:
        """Return a tensor of the same values in memory of its own; in a traced network the tensor itself."""
        return self if self._value is not None else Tensor(self.asnumpy().copy())

    def contiguous(self) -> Tensor:
        """Return the tensor itself."""
        return self

    def is_contiguous(self) -> bool:
        """Return True: what order elements have in memory is not the network's business."""
        return True

    @property
    def is_init(self) -> bool:
        """Whether the values are there."""
        return not self.has_init

    @property
    def data(self) -> Tensor:
        """The tensor itself."""
        return self

    def item(self) -> Any:
        """Return the only element as a Python number."""
        return self.asnumpy().item()

    def __hash__(self) -> int:
        return id(self)

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError("a 0-d tensor has no length")
        return self.shape[0]

    def __setitem__(self, index: Any, item: Any) -> None:
        if self._value is not None:
            raise refuse_data_dependence("overwrites elements")
        values = item.asnumpy() if isinstance(item, Tensor) else item
        items = index if isinstance(index, tuple) else (index,)
        places = tuple(one.asnumpy() if isinstance(one, Tensor) else one for one in items)
        self._overwrite(places, values)

    def _overwrite(self, places: Any, values: Any) -> None:
        # A copy: the array may be the user's own, or shown by other tensors.
        array = self.asnumpy().copy()
        array[places] = values
        self._array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.asnumpy()
        return array.astype(dtype) if dtype is not None and array.dtype != dtype else array

    def __bool__(self) -> bool:
        if self._value is not None:
            raise refuse_data_dependence("branches on the values")
        return bool(self.asnumpy())

    def __float__(self) -> float:
        if self._value is not None:
            raise refuse_data_dependence("takes float()")
        return float(self.asnumpy())

    def __int__(self) -> int:
        if self._value is not None:
            raise refuse_data_dependence("takes int()")
        return int(self.asnumpy())

    def __index__(self) -> int:
        return int(self)

    def __repr__(self) -> str:
        if self._array is None:
            return f"{type(self).__name__}(shape={list(self.shape)}, dtype={self.dtype}, no values yet)"
        return f"{type(self).__name__}(shape={list(self.shape)}, dtype={self.dtype}, value=\n{self.asnumpy()!s})"
