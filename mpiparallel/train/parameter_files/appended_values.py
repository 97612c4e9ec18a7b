"""Numbers, texts and tensors that are saved beside parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor import Tensor


def appended_array(where: str, name: str, value: Any) -> NDArray[Any]:
    """Return a number or a tensor as an array. Raises ConfigurationError, which begins with ``where``, for others.

    >>> appended_array("append_info", "epoch_num", 3)
    array(3)
    """
    if not isinstance(value, (bool, int, float, np.ndarray, np.generic, Tensor)):
        raise ConfigurationError(f"{where}: {name!r} is a {type(value).__name__}; give a number, a text or a tensor")
    return np.array(value.asnumpy() if isinstance(value, Tensor) else value)
