"""Statistics of channels that lie far from 0."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import ops


@pytest.mark.parametrize("shape", [(16, 5, 1, 1), (8, 5, 9, 7)])
def test_the_variance_of_float32_channels_is_exact_however_far_their_mean(shape) -> None:
    """Rounded to float32, a mean of 100 leaves a variance of 0.01 with an error of 1e-3 of its size."""
    x = (np.random.default_rng(0).normal(size=shape) * 0.1 + 100.0).astype(np.float32)
    sums = ops.BNTrainingReduce()(x)
    mean, variance = (one.asnumpy() for one in ops.BNMoments(x.size // 5)(*sums))
    np.testing.assert_allclose(mean, np.mean(x, (0, 2, 3), np.float64), rtol=1e-13)
    np.testing.assert_allclose(variance, np.var(x, (0, 2, 3), np.float64), rtol=1e-7)
