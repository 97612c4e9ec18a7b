"""MindSpore's door to the types of elements, ``mpiparallel.dtype``."""

from __future__ import annotations

from mpiparallel.dtype import bfloat16 as bfloat16
from mpiparallel.dtype import bool_ as bool_
from mpiparallel.dtype import complex64 as complex64
from mpiparallel.dtype import complex128 as complex128
from mpiparallel.dtype import dtype_to_nptype as dtype_to_nptype
from mpiparallel.dtype import float16 as float16
from mpiparallel.dtype import float32 as float32
from mpiparallel.dtype import float64 as float64
from mpiparallel.dtype import int8 as int8
from mpiparallel.dtype import int16 as int16
from mpiparallel.dtype import int32 as int32
from mpiparallel.dtype import int64 as int64
from mpiparallel.dtype import uint8 as uint8
from mpiparallel.dtype import uint16 as uint16
from mpiparallel.dtype import uint32 as uint32
from mpiparallel.dtype import uint64 as uint64

__all__ = [
    "bfloat16",
    "bool_",
    "complex64",
    "complex128",
    "dtype_to_nptype",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
