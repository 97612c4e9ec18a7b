"""Collectives of floats of 16 bits: sums are formed in float32, what moves keeps its bits."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mpiparallel.communication.threads import run_world

NARROW = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_sums_are_rounded_once_and_extremes_keep_their_bits(dtype: Any) -> None:
    numbers = np.random.default_rng(0).normal(size=(4, 1000)).astype(dtype)

    def reduced(communicator: Any) -> list[Any]:
        results = []
        for operation in ("sum", "max", "min"):
            array = numbers[communicator.rank].copy()
            communicator.all_reduce(array, operation)
            results.append(array)
        return results

    exact = numbers.astype(np.float32)
    for total, largest, smallest in run_world(4, reduced):
        # In float32 a sum of four depends on its order in the last bit; rounded, in one unit at the most.
        unit = float(ml_dtypes.finfo(dtype).eps)
        np.testing.assert_allclose(total.astype(np.float32), exact.sum(0), rtol=unit, atol=unit / 100)
        assert largest.dtype == smallest.dtype == dtype
        np.testing.assert_array_equal(largest.astype(np.float32), exact.max(0))
        np.testing.assert_array_equal(smallest.astype(np.float32), exact.min(0))
