"""Losses of one row, of classes and of shares, against sums that are written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.errors import ShapeError

GENERATOR = np.random.default_rng(13)
LOGITS = GENERATOR.normal(size=(4, 3))
LOGARITHMS = LOGITS - np.log(np.exp(LOGITS).sum(1, keepdims=True))
SHARES = np.abs(GENERATOR.normal(size=(4, 3)))
WEIGHT = np.array([0.5, 2.0, 1.0])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_one_row_of_logits_has_the_loss_of_its_class(reduction: str) -> None:
    found = ops.cross_entropy(LOGITS[0], np.array(2, np.int32), reduction=reduction)
    np.testing.assert_allclose(found.asnumpy(), -LOGARITHMS[0, 2], rtol=1e-12)
    found = ops.nll_loss(LOGARITHMS[0], np.array(1, np.int32), WEIGHT, reduction=reduction)
    factor = 1.0 if reduction == "mean" else WEIGHT[1]
    np.testing.assert_allclose(found.asnumpy(), -LOGARITHMS[0, 1] * factor, rtol=1e-12)


@pytest.mark.parametrize("count", [3, 5])
def test_classes_of_another_number_of_rows_are_refused(count: int) -> None:
    with pytest.raises(ShapeError, match=rf"nll_loss: target of shape \({count},\) must be \(4, 3\) without its dim 1"):
        ops.nll_loss(LOGARITHMS, np.zeros(count, np.int32))


@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_shares_of_classes_weigh_the_logarithms(reduction: str, smoothing: float, weight: Any) -> None:
    shares = SHARES * (1 - smoothing) + smoothing / 3
    losses = -(LOGARITHMS * shares * (1.0 if weight is None else weight)).sum(1)
    wanted = {"mean": losses.mean(), "sum": losses.sum(), "none": losses}[reduction]
    found = ops.cross_entropy(LOGITS, SHARES, weight, reduction=reduction, label_smoothing=smoothing)
    np.testing.assert_allclose(found.asnumpy(), wanted, rtol=1e-12)


def test_nothing_is_said_of_an_ignored_index_that_nobody_gave(remarks: Callable[[], list[str]]) -> None:
    ops.cross_entropy(LOGITS, SHARES)
    assert remarks() == []


def test_a_divergence_by_rows_is_divided_by_their_number() -> None:
    found = ops.kl_div(LOGITS, SHARES, "batchmean")
    np.testing.assert_allclose(float(found), (SHARES * (np.log(SHARES) - LOGITS)).sum() / 4, rtol=1e-12)
    assert float(ops.kl_div(LOGITS, np.zeros((4, 3)))) == 0.0


@pytest.mark.parametrize(("dtype", "most"), [(np.float16, 24 * np.log(2)), (np.float32, 126 * np.log(2))])
def test_a_probability_of_0_counts_as_the_least_number_of_its_dtype(dtype: Any, most: float) -> None:
    found = ops.binary_cross_entropy(np.zeros(1, dtype), np.ones(1, dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(float(found), most, rtol=1e-3)


@pytest.mark.parametrize(("reduction", "wanted"), [("mean", 4.0), ("sum", 12.0), ("none", [1.0, 1.0, 10.0])])
def test_regression_losses_are_reduced_as_told(reduction: str, wanted: Any) -> None:
    x, y = np.array([1.0, 2.0, -5.0]), np.array([0.0, 3.0, 5.0])
    assert ops.l1_loss(x, y, reduction).tolist() == wanted
    assert ops.l1_loss(x, y).tolist() == 4.0
    assert ops.mse_loss(x, y).tolist() == 34.0
    assert ops.huber_loss(x, y).tolist() == 3.5
    assert ops.smooth_l1_loss(x, y).tolist() == [0.5, 0.5, 9.5]
