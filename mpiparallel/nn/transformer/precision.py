"""In which dtype a part of a layer computes."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel.graph.tensor import Tensor


def at_least(x: Tensor, dtype: Any) -> Tensor:
    """Return ``x`` in ``dtype``, or in its own dtype where that is the wider one.

    >>> at_least(Tensor([1.0]), np.float64).dtype
    mpiparallel.float64
    """
    wide = np.result_type(x.dtype, dtype)
    return x if wide == x.dtype else x.astype(wide)
