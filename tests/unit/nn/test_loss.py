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


@pytest.mark.parametrize("loss", [nn.NLLLoss, nn.CrossEntropyLoss])
def test_a_label_of_minus_a_hundred_counts_nothing_unless_another_is_said(loss):
    classes = CLASSES.copy()
    classes[[0, 3]] = -100
    counted = -LOG_SHARES[ROWS, CLASSES][classes >= 0].mean()
    found = loss()(Tensor(LOG_SHARES), Tensor(classes)).asnumpy()
    np.testing.assert_allclose(found, counted, rtol=1e-10)
    ignored = loss(ignore_index=int(CLASSES[0]))(Tensor(LOG_SHARES), Tensor(CLASSES)).asnumpy()
    np.testing.assert_allclose(ignored, -LOG_SHARES[ROWS, CLASSES][CLASSES[0] != CLASSES].mean(), rtol=1e-10)


@pytest.mark.parametrize("weights", [1.0, 1, 0.5, 2.0, 3])
def test_losses_are_multiplied_by_a_number(weights):
    found = nn.LossBase("sum").get_loss(Tensor(LOGITS), weights).asnumpy()
    np.testing.assert_allclose(found, LOGITS.sum() * weights, rtol=1e-12)
    np.testing.assert_allclose(nn.LossBase().get_loss(Tensor(LOGITS)).asnumpy(), LOGITS.mean(), rtol=1e-12)


WEIGHT, POSITIVE = np.linspace(0.5, 1.5, 5), np.linspace(2.0, 3.0, 5)


@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("positive", [None, POSITIVE])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_elements_and_positive_labels_may_have_weights_of_their_own(weight, positive, reduction):
    first, second = SHARES * np.log(ODDS), (1 - SHARES) * np.log(1 - ODDS)
    wanted = -(first * (1 if positive is None else positive) + second) * (1 if weight is None else weight)
    given = (None if one is None else Tensor(one) for one in (weight, positive))
    found = nn.BCEWithLogitsLoss(reduction, *given)(Tensor(LOGITS), Tensor(SHARES)).asnumpy()
    np.testing.assert_allclose(found, REDUCTIONS[reduction](wanted), rtol=1e-10)


def test_labels_are_shares_and_losses_are_of_rows_where_nothing_is_said():
    found = nn.SoftmaxCrossEntropyWithLogits()(Tensor(LOGITS), Tensor(SHARES)).asnumpy()
    np.testing.assert_allclose(found, cross_entropy(SHARES), rtol=1e-12)
    smooth = nn.SmoothL1Loss()(Tensor(LOGITS), Tensor(TARGETS)).asnumpy()
    np.testing.assert_allclose(smooth, np.where(APART < 1, APART**2 / 2, APART - 0.5), rtol=1e-12)


def test_a_reduction_is_known_by_its_letters_wherever_the_text_comes_from():
    mean, batch_mean, nothing = (bytes(one, "ascii").decode() for one in ("mean", "batchmean", "none"))
    given = Tensor(LOGITS), Tensor(TARGETS)
    np.testing.assert_allclose(nn.L1Loss(mean)(*given).asnumpy(), APART.mean(), rtol=1e-12)
    np.testing.assert_allclose(nn.L1Loss(nothing)(*given).asnumpy(), APART, rtol=1e-12)
    sparse = nn.SoftmaxCrossEntropyWithLogits(True, mean)(Tensor(LOGITS), Tensor(CLASSES)).asnumpy()
    np.testing.assert_allclose(sparse, cross_entropy(np.eye(5)[CLASSES]).mean(), rtol=1e-12)
    divergence = nn.KLDivLoss(batch_mean)(Tensor(LOG_SHARES), Tensor(SHARES)).asnumpy()
    np.testing.assert_allclose(divergence, (SHARES * (np.log(SHARES) - LOG_SHARES)).sum() / 6, rtol=1e-10)


@pytest.mark.parametrize("loss", [nn.BCELoss, nn.KLDivLoss, nn.HuberLoss, nn.SmoothL1Loss, nn.CrossEntropyLoss])
def test_each_loss_refuses_an_unknown_reduction_by_its_own_name(loss):
    with pytest.raises(ConfigurationError, match=f"{loss.__name__}: reduction 'max' is not one of 'mean', 'sum'"):
        loss(reduction="max")
