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


def test_losses_can_be_weighed():
    class Weighed(nn.LossBase):
        def construct(self, logits, labels):
            return self.get_loss(logits - labels, labels)

    found = Weighed("sum")(Tensor(LOGITS), Tensor(TARGETS)).asnumpy()
    np.testing.assert_allclose(found, ((LOGITS - TARGETS) * TARGETS).sum(), rtol=1e-12)


def test_an_unknown_reduction_is_refused():
    with pytest.raises(ConfigurationError, match="MSELoss: reduction 'max' is not one of 'mean', 'sum', 'none'"):
        nn.MSELoss("max")
