"""The change of a column's dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mpiparallel.errors import DatasetError


class TypeCast:
    """Casts an array.

    Parameters
    ----------
    dtype : dtype
        Anything that ``numpy.dtype`` accepts.

    Raises
    ------
    DatasetError
        If there is no such dtype.

    Examples
    --------
    >>> TypeCast("int32")(np.array([1.0, 2.0]))
    array([1, 2], dtype=int32)
    """

    def __init__(self, dtype: npt.DTypeLike) -> None:
        try:
            self.dtype: np.dtype[Any] = np.dtype(dtype)
        except TypeError as error:
            raise DatasetError(f"TypeCast: {dtype!r} is no dtype; give one such as numpy.float32 or 'int32'") from error

    def __call__(self, value: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return ``value`` as an array of the dtype."""
        return np.asarray(value).astype(self.dtype)
