"""What becomes inf or NaN does so without a warning of NumPy's, however a network is run: a device gives none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import Tensor, ops

LARGE = np.float32(3e38)
CASES: dict[str, tuple[Callable[..., Tensor], tuple[np.ndarray, ...], list[float]]] = {
    "a division by zero": (lambda x: 1.0 / x, (np.float32([0, 2]),), [np.inf, 0.5]),
    "the logarithm of zero": (ops.log, (np.float32([0, 1]),), [-np.inf, 0]),
    "an exponential that is too large": (ops.exp, (np.float32([1000, 0]),), [np.inf, 1]),
    "a sum that is too large": (lambda x: ops.reduce_sum(x, 1), (np.full((2, 2), LARGE),), [np.inf, np.inf]),
    "a product that is too large": (ops.matmul, (np.full((1, 2), LARGE), np.full((2, 1), LARGE)), [np.inf]),
    "a cast that does not fit": (lambda x: x.astype(ms.float16), (np.float32([1e6, 1]),), [np.inf, 1]),
    "zero by zero in a gradient": (ops.grad(lambda x: (x / x).sum()), (np.float32([0, 4]),), [np.nan, 0]),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["operator by operator", "compiled"])
@pytest.mark.parametrize(("function", "inputs", "expected"), CASES.values(), ids=CASES)
def test_it_is_computed_without_a_word(
    function: Callable[..., Tensor], inputs: tuple[np.ndarray, ...], expected: list[float], compiled: bool
) -> None:
    run = ms.jit(function) if compiled else function
    np.testing.assert_array_equal(run(*map(Tensor, inputs)).asnumpy().ravel(), expected)
