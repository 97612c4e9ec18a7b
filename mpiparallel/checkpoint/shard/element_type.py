"""The types of elements as HDF5 has them."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np

from mpiparallel.dtype import bfloat16

_BFLOAT16 = np.dtype(bfloat16)


def hdf5_type(dtype: np.dtype[Any]) -> Any:
    """Return the type of an HDF5 dataset of this dtype; of bfloat16 a float that HDF5 converts to any other.

    Its 16 bits are those of a float32 without the last 16: a sign, 8 bits of exponent, 7 of mantissa.
    """
    if dtype != _BFLOAT16:
        return h5py.h5t.py_create(dtype, logical=True)
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_size(2)
    kind.set_precision(16)
    kind.set_ebias(127)
    return kind
