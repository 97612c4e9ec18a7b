"""Losses compute their formulas under each reduction."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from mpiparallel import nn
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor import Tensor

GENERATOR = np.random.default_rng(4)
LOGITS = GENERATOR.normal(size=(6, 5))
TARGETS = GENERATOR.normal(size=(6, 5))
CLASSES = GENERATOR.integers(0, 5, 6).astype(np.int32)
REDUCTIONS = {"mean": np.mean, "sum": np.sum, "none": np.asarray}


def cross_entropy(labels):
    shifted = LOGITS - LOGITS.max(1, keepdims=True)
    return -(labels * (shifted - np.log(np.exp(shifted).sum(1, keepdims=True)))).sum(1)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    ("loss", "labels", "wanted"),
    [
        (nn.MSELoss, TARGETS, (LOGITS - TARGETS) ** 2),
        (nn.L1Loss, TARGETS, abs(LOGITS - TARGETS)),
        (partial(nn.SoftmaxCrossEntropyWithLogits, True), CLASSES, cross_entropy(np.eye(5)[CLASSES])),
        (
            partial(nn.SoftmaxCrossEntropyWithLogits, False),
            np.full((6, 5), 0.2),
            cross_entropy(np.full((6, 5), 0.2)),
        ),
    ],
    ids=["mse", "l1", "sparse cross entropy", "cross entropy"],
)
def test_loss_is_the_reduction_of_its_formula(loss, labels, wanted, reduction):
    found = loss(reduction=reduction)(Tensor(LOGITS), Tensor(labels)).asnumpy()
    np.testing.assert_allclose(found, REDUCTIONS[reduction](wanted), rtol=1e-12)


SHARES = np.exp(TARGETS) / np.exp(TARGETS).sum(1, keepdims=True)
ODDS = 1 / (1 + np.exp(-LOGITS))
LOG_SHARES = LOGITS - np.log(np.exp(LOGITS).sum(1, keepdims=True))
APART = abs(LOGITS - TARGETS)
BCE = -(SHARES * np.log(ODDS) + (1 - SHARES) * np.log(1 - ODDS))
ROWS = np.arange(6)
OTHERS = {
    "binary cross entropy": (nn.BCELoss, ODDS, SHARES, BCE, "mean"),
    "binary cross entropy of logits": (nn.BCEWithLogitsLoss, LOGITS, SHARES, BCE, "mean"),
    "negative log likelihood": (nn.NLLLoss, LOG_SHARES, CLASSES, -LOG_SHARES[ROWS, CLASSES], "mean"),
    "cross entropy of classes": (nn.CrossEntropyLoss, LOGITS, CLASSES, -LOG_SHARES[ROWS, CLASSES], "mean"),
    "divergence": (nn.KLDivLoss, LOG_SHARES, SHARES, SHARES * (np.log(SHARES) - LOG_SHARES), "mean"),
    "huber": (nn.HuberLoss, LOGITS, TARGETS, np.where(APART <= 1, APART**2 / 2, APART - 0.5), "mean"),
    "smooth l1": (
        partial(nn.SmoothL1Loss, 0.5),
        LOGITS,
        TARGETS,
        np.where(APART < 0.5, APART**2, APART - 0.25),
        "none",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_losses_are_each_reduction_of_their_formula_and_one_without_being_asked(name):
    loss, given, labels, wanted, default = OTHERS[name]
    asked = {one: loss(reduction=one) for one in REDUCTIONS}
    for reduction, made in (*asked.items(), (default, loss())):
        found = made(Tensor(given), Tensor(labels)).asnumpy()
        np.testing.assert_allclose(found, REDUCTIONS[reduction](wanted), rtol=1e-10)


def test_a_divergence_is_divided_by_its_rows_where_it_is_a_mean_of_the_batch():
    found = nn.KLDivLoss("batchmean")(Tensor(LOG_SHARES), Tensor(SHARES)).asnumpy()
    np.testing.assert_allclose(found, (SHARES * (np.log(SHARES) - LOG_SHARES)).sum() / 6, rtol=1e-10)


def test_losses_can_be_weighed():
    class Weighed(nn.LossBase):
        def construct(self, logits, labels):
            return self.get_loss(logits - labels, labels)

    found = Weighed("sum")(Tensor(LOGITS), Tensor(TARGETS)).asnumpy()
    np.testing.assert_allclose(found, ((LOGITS - TARGETS) * TARGETS).sum(), rtol=1e-12)


def test_an_unknown_reduction_is_refused():
    with pytest.raises(ConfigurationError, match="MSELoss: reduction 'max' is not one of 'mean', 'sum', 'none'"):
        nn.MSELoss("max")
