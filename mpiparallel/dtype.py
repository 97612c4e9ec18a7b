"""The types of elements, by MindSpore's names; each is a NumPy dtype.

>>> float32 == "float32"
True
"""

from __future__ import annotations

from typing import Any

import numpy as np

bool_: np.dtype[Any] = np.dtype(np.bool_)
int8: np.dtype[Any] = np.dtype(np.int8)
int16: np.dtype[Any] = np.dtype(np.int16)
int32: np.dtype[Any] = np.dtype(np.int32)
int64: np.dtype[Any] = np.dtype(np.int64)
uint8: np.dtype[Any] = np.dtype(np.uint8)
uint16: np.dtype[Any] = np.dtype(np.uint16)
uint32: np.dtype[Any] = np.dtype(np.uint32)
uint64: np.dtype[Any] = np.dtype(np.uint64)
float16: np.dtype[Any] = np.dtype(np.float16)
float32: np.dtype[Any] = np.dtype(np.float32)
float64: np.dtype[Any] = np.dtype(np.float64)
complex64: np.dtype[Any] = np.dtype(np.complex64)
complex128: np.dtype[Any] = np.dtype(np.complex128)

bfloat16: str = "bfloat16"
"""A name only: no array library here computes in it, and ``Cell.to_float`` says what to use instead."""


def dtype_to_nptype(type_: Any) -> type[Any]:
    """Return the NumPy scalar type of a dtype.

    >>> dtype_to_nptype(int32)
    <class 'numpy.int32'>
    """
    scalar: type[Any] = np.dtype(type_).type
    return scalar
