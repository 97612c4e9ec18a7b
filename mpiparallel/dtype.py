"""The types of elements, by MindSpore's names. NumPy takes each where it wants a dtype.

>>> import numpy as np
>>> print(float32, np.zeros(2, float32).dtype)
Float32 float32
>>> float32 == np.float32, float32 == "float32", float32 == float64
(True, True, False)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import ml_dtypes
import numpy as np

from mpiparallel.compatibility.absent_names import getattr_of
from mpiparallel.errors import ConfigurationError

_SPELLED = {"ui": "UI", "bf": "BF"}
"""How MindSpore begins the names that it does not merely capitalise."""


class Type:
    """The type of an element, as ``Tensor.dtype`` returns it: MindSpore's name for a NumPy dtype.

    It prints as MindSpore's does, equals the NumPy dtype and what NumPy takes for it, and has its attributes.
    """

    __slots__ = ("_name", "dtype")

    def __init__(self, dtype: Any) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        name: str = self.dtype.name.rstrip("_")
        self._name = _SPELLED.get(name[:2], name[:1].upper()) + name[2 if name[:2] in _SPELLED else 1 :]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in self.__slots__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.dtype, name)

    def __eq__(self, other: object) -> bool:
        if other is None:
            return False
        try:
            return bool(self.dtype == other.dtype if isinstance(other, Type) else self.dtype == other)
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"mpiparallel.{self._name.lower()}"

    def __reduce__(self) -> tuple[Any, ...]:
        return Type, (self.dtype,)


class AbstractType:
    """A name of MindSpore for what is no type of an element here: any number, a tensor, a type that NumPy lacks.

    It prints as MindSpore's does and has ``members``. Using it as a dtype raises ConfigurationError, which says why.
    """

    def __init__(self, name: str, members: tuple[Type, ...] = (), why: str = "") -> None:
        self._name, self._members, self._why = name, members, why

    def __iter__(self) -> Iterator[Type]:
        return iter(self._members)

    def __contains__(self, item: object) -> bool:
        return item is self or item in self._members

    @property
    def dtype(self) -> NoReturn:
        """No NumPy dtype: ConfigurationError."""
        types = ", ".join(map(repr, self._members))
        raise ConfigurationError(f"{self._name} is no type of an element; {self._why or f'give one of {types}'}")

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"mpiparallel.{self._name.lower()}"


bool_ = Type(np.bool_)
int8 = byte = Type(np.int8)
int16 = short = Type(np.int16)
int32 = intc = Type(np.int32)
int64 = long = intp = Type(np.int64)
uint8 = ubyte = Type(np.uint8)
uint16 = ushort = Type(np.uint16)
uint32 = uintc = Type(np.uint32)
uint64 = uintp = Type(np.uint64)
float16 = half = Type(np.float16)
bfloat16 = Type(ml_dtypes.bfloat16)
float32 = single = Type(np.float32)
float64 = double = Type(np.float64)
complex64 = cfloat = Type(np.complex64)
complex128 = cdouble = Type(np.complex128)

int_type = (int8, int16, int32, int64)
uint_type = (uint8, uint16, uint32, uint64)
float_type = (float16, bfloat16, float32, float64)
complex_type = (complex64, complex128)
number_type = (*int_type, *uint_type, *float_type, *complex_type)

int_ = AbstractType("Int", int_type)
uint = AbstractType("UInt", uint_type)
float_ = AbstractType("Float", float_type)
number = AbstractType("Number", number_type)
tensor_type = AbstractType("Tensor", why="it is what a Tensor is")
string = AbstractType("String", why="texts are no elements of tensors")
type_none = AbstractType("None", why="it is what None is")
list_ = AbstractType("List", why="it is what a list is")
tuple_ = AbstractType("Tuple", why="it is what a tuple is")
function = AbstractType("Func", why="it is what a function is")

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_NARROW = (np.dtype(np.float16), _BFLOAT16)
_TYPES = {one.dtype: one for one in (bool_, *number_type)}
_OF_PYTHON: dict[type[Any], Type | AbstractType] = {
    bool: bool_,
    int: int64,
    float: float64,
    str: string,
    list: list_,
    tuple: tuple_,
    type(None): type_none,
}


def is_floating(dtype: Any) -> bool:
    """Return whether a NumPy dtype is of floating point; to NumPy bfloat16 is none.

    >>> is_floating(np.dtype(bfloat16)), is_floating(np.dtype(np.int8))
    (True, False)
    """
    return bool(dtype.kind == "f" or dtype == _BFLOAT16)


def is_inexact(dtype: Any) -> bool:
    """Return whether a NumPy dtype is of floating point or complex: what has gradients."""
    return dtype.kind == "c" or is_floating(dtype)


def is_narrow(dtype: Any) -> bool:
    """Return whether a NumPy dtype is a float of 16 bits, which operators compute in float32."""
    return bool(dtype in _NARROW)


def wide_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the dtype in which sums are added up: float32 for floats of 16 bits, else the dtype itself.

    >>> wide_dtype(np.dtype(float16)), wide_dtype(np.dtype(np.float64))
    (dtype('float32'), dtype('float64'))
    """
    return np.dtype(np.float32 if is_narrow(dtype) else dtype)


def common_dtype(*dtypes: Any) -> np.dtype[Any]:
    """Return NumPy's common dtype of several; float16 and bfloat16 make float32, bfloat16 and integers bfloat16.

    >>> common_dtype(np.dtype(float16), np.dtype(bfloat16))
    dtype('float32')
    """
    distinct = set(dtypes)
    if _BFLOAT16 in distinct and len(distinct) > 1:
        distinct = {one for one in distinct if is_inexact(one)}
        if distinct.issuperset(_NARROW):
            distinct = distinct - {*_NARROW} | {np.dtype(np.float32)}
    return np.result_type(*distinct)


def smallest_normal(dtype: Any) -> float:
    """Return the smallest positive number of full precision of a floating-point dtype."""
    # A bfloat16 is a float32 whose last 16 bits are 0: it has the exponents of one.
    return float(np.finfo(np.float32 if dtype == _BFLOAT16 else dtype).tiny)


def dtype_of_character(character: str) -> np.dtype[Any]:
    """Return the dtype whose ``char`` this is."""
    return _BFLOAT16 if character == _BFLOAT16.char else np.dtype(character)


def dtype_text(dtype: np.dtype[Any]) -> str:
    """Return the text of which ``np.dtype`` makes this dtype again, in every process that has imported this.

    >>> dtype_text(np.dtype(np.float32)), dtype_text(np.dtype(bfloat16))
    ('<f4', 'bfloat16')
    """
    return dtype.name if dtype == _BFLOAT16 else dtype.str


def type_of(dtype: Any) -> Type:
    """Return the type of elements of a NumPy dtype.

    >>> type_of("float16")
    mpiparallel.float16
    """
    found = np.dtype(dtype)
    return _TYPES.get(found) or Type(found)


def dtype_to_nptype(type_: Any) -> type[Any]:
    """Return the NumPy scalar type of a dtype.

    Parameters
    ----------
    type_ : dtype
        MindSpore's or NumPy's.

    Returns
    -------
    type
        Such as ``numpy.int32``.

    Examples
    --------
    >>> dtype_to_nptype(int32)
    <class 'numpy.int32'>
    """
    scalar: type[Any] = np.dtype(type_).type
    return scalar


def dtype_to_pytype(type_: Any) -> type[Any]:
    """Return the Python type that holds an element of a dtype.

    Parameters
    ----------
    type_ : dtype
        MindSpore's or NumPy's.

    Returns
    -------
    type
        ``bool``, ``int``, ``float`` or ``complex``.

    Examples
    --------
    >>> dtype_to_pytype(float16)
    <class 'float'>
    """
    return type(np.zeros((), np.dtype(type_)).item())


def pytype_to_dtype(obj: Any) -> Type | AbstractType:
    """Return the type of a Python or NumPy type; a type of ours is returned.

    Parameters
    ----------
    obj : type
        Such as ``float`` or ``numpy.int8``.

    Returns
    -------
    Type or Kind
        Such as ``float64``.

    Raises
    ------
    ConfigurationError
        For others.

    Examples
    --------
    >>> print(pytype_to_dtype(float), pytype_to_dtype(np.int8))
    Float64 Int8
    """
    if isinstance(obj, (Type, AbstractType)):
        return obj
    if isinstance(obj, type) and obj in _OF_PYTHON:
        return _OF_PYTHON[obj]
    if isinstance(obj, type) and issubclass(obj, np.generic):
        return type_of(obj)
    raise ConfigurationError(f"pytype_to_dtype: {obj!r} is neither a Python type of numbers nor one of NumPy's")


def get_py_obj_dtype(obj: Any) -> Type | AbstractType:
    """Return the type of a Python number, of another Python object, or of the elements of a tensor.

    Parameters
    ----------
    obj : object
        A number, another object, a tensor or an array.

    Returns
    -------
    Type or Kind
        Such as ``int64``.

    Examples
    --------
    >>> print(get_py_obj_dtype(True))
    Bool
    """
    return type_of(obj.dtype) if hasattr(obj, "dtype") else pytype_to_dtype(type(obj))


if not TYPE_CHECKING:
    __getattr__ = getattr_of(__name__)
