"""Activation functions where their pieces meet, and slopes of channels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, ops

IMAGES = np.random.default_rng(3).normal(size=(2, 3, 4, 5))


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("dims", [2, 3, 4])
def test_each_channel_has_its_slope(count: int, dims: int) -> None:
    x = IMAGES[:, :count, :, :][(..., *[0] * (4 - dims))]
    slopes = np.arange(1.0, count + 1) / 4
    along = slopes.reshape(-1, *[1] * (dims - 2))
    np.testing.assert_allclose(ops.prelu(x, slopes).asnumpy(), np.where(x > 0, x, x * along), rtol=1e-12)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: ops.leaky_relu(x, 0.25), 0.25),
        (lambda x: ops.prelu(x, Tensor(np.array([0.5]))), 0.5),
    ],
)
def test_at_zero_the_gradient_is_that_of_the_left_side(function: Callable[[Any], Any], wanted: float) -> None:
    found = ops.grad(lambda x: function(x).sum())(Tensor(np.zeros((1, 1))))
    assert found.asnumpy().tolist() == [[wanted]]


def test_softplus_is_the_line_above_the_threshold_alone() -> None:
    found = ops.softplus(np.array([4.0, 5.0, 5.001]), 2.0, 10.0).asnumpy()
    wanted = [np.log1p(np.exp(8.0)) / 2, np.log1p(np.exp(10.0)) / 2, 5.001]
    np.testing.assert_allclose(found, wanted, rtol=1e-15)
