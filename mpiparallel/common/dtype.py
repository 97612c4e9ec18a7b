"""MindSpore's door to the types of elements, ``mpiparallel.dtype``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpiparallel.compatibility.absent_names import getattr_of
from mpiparallel.dtype import Type as Type
from mpiparallel.dtype import bfloat16 as bfloat16
from mpiparallel.dtype import bool_ as bool_
from mpiparallel.dtype import byte as byte
from mpiparallel.dtype import cdouble as cdouble
from mpiparallel.dtype import cfloat as cfloat
from mpiparallel.dtype import complex64 as complex64
from mpiparallel.dtype import complex128 as complex128
from mpiparallel.dtype import complex_type as complex_type
from mpiparallel.dtype import double as double
from mpiparallel.dtype import dtype_to_nptype as dtype_to_nptype
from mpiparallel.dtype import dtype_to_pytype as dtype_to_pytype
from mpiparallel.dtype import float16 as float16
from mpiparallel.dtype import float32 as float32
from mpiparallel.dtype import float64 as float64
from mpiparallel.dtype import float_ as float_
from mpiparallel.dtype import float_type as float_type
from mpiparallel.dtype import function as function
from mpiparallel.dtype import get_py_obj_dtype as get_py_obj_dtype
from mpiparallel.dtype import half as half
from mpiparallel.dtype import int8 as int8
from mpiparallel.dtype import int16 as int16
from mpiparallel.dtype import int32 as int32
from mpiparallel.dtype import int64 as int64
from mpiparallel.dtype import int_ as int_
from mpiparallel.dtype import int_type as int_type
from mpiparallel.dtype import intc as intc
from mpiparallel.dtype import intp as intp
from mpiparallel.dtype import list_ as list_
from mpiparallel.dtype import long as long
from mpiparallel.dtype import number as number
from mpiparallel.dtype import number_type as number_type
from mpiparallel.dtype import pytype_to_dtype as pytype_to_dtype
from mpiparallel.dtype import short as short
from mpiparallel.dtype import single as single
from mpiparallel.dtype import string as string
from mpiparallel.dtype import tensor_type as tensor_type
from mpiparallel.dtype import tuple_ as tuple_
from mpiparallel.dtype import type_none as type_none
from mpiparallel.dtype import ubyte as ubyte
from mpiparallel.dtype import uint as uint
from mpiparallel.dtype import uint8 as uint8
from mpiparallel.dtype import uint16 as uint16
from mpiparallel.dtype import uint32 as uint32
from mpiparallel.dtype import uint64 as uint64
from mpiparallel.dtype import uint_type as uint_type
from mpiparallel.dtype import uintc as uintc
from mpiparallel.dtype import uintp as uintp
from mpiparallel.dtype import ushort as ushort

__all__ = [
    "Type",
    "bfloat16",
    "bool_",
    "byte",
    "cdouble",
    "cfloat",
    "complex64",
    "complex128",
    "complex_type",
    "double",
    "dtype_to_nptype",
    "dtype_to_pytype",
    "float16",
    "float32",
    "float64",
    "float_",
    "float_type",
    "function",
    "get_py_obj_dtype",
    "half",
    "int8",
    "int16",
    "int32",
    "int64",
    "int_",
    "int_type",
    "intc",
    "intp",
    "list_",
    "long",
    "number",
    "number_type",
    "pytype_to_dtype",
    "short",
    "single",
    "string",
    "tensor_type",
    "tuple_",
    "type_none",
    "ubyte",
    "uint",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "uint_type",
    "uintc",
    "uintp",
    "ushort",
]

if not TYPE_CHECKING:
    __getattr__ = getattr_of(__name__)
