"""Learning-rate tables against their formulas, and used by an optimizer."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn
from mpiparallel.errors import ConfigurationError

EPOCH = np.arange(12) // 3


@pytest.mark.parametrize(
    ("table", "formula"),
    [
        (nn.exponential_decay_lr(0.1, 0.9, 12, 3, 2), 0.1 * 0.9 ** (EPOCH / 2)),
        (nn.exponential_decay_lr(0.1, 0.9, 12, 3, 2, True), 0.1 * 0.9 ** (EPOCH // 2)),
        (nn.cosine_decay_lr(0.01, 0.1, 12, 3, 4), 0.01 + 0.045 * (1 + np.cos(np.pi * EPOCH / 4))),
        (
            nn.polynomial_decay_lr(0.1, 0.01, 12, 3, 2, 0.5, True),
            0.09 * (1 - EPOCH / (2 * np.maximum(np.ceil(EPOCH / 2), 1))) ** 0.5 + 0.01,
        ),
        (nn.polynomial_decay_lr(0.1, 0.01, 12, 3, 2, 0.5), 0.09 * (1 - np.minimum(EPOCH, 2) / 2) ** 0.5 + 0.01),
        (nn.warmup_lr(0.1, 12, 3, 2), 0.1 * np.minimum(EPOCH, 2) / 2),
        (nn.piecewise_constant_lr([3, 12], [0.1, 0.2]), np.where(EPOCH < 1, 0.1, 0.2)),
    ],
)
def test_a_table_follows_its_formula(table, formula) -> None:
    np.testing.assert_allclose(table, formula, rtol=1e-12)


def test_an_optimizer_takes_a_rate_from_the_table_each_step() -> None:
    weight = ms.Parameter(np.zeros(1), "w")
    optimizer = nn.SGD([weight], nn.piecewise_constant_lr([1, 3], [1.0, 0.25]))
    for _ in range(3):
        optimizer((ms.Tensor(np.ones(1)),))
    assert weight.asnumpy().tolist() == [-1.5]


@pytest.mark.parametrize("milestone", [[], [3, 2], [0, 2], [1, 2, 3]])
def test_milestones_that_do_not_fit_are_refused(milestone) -> None:
    with pytest.raises(ConfigurationError, match="piecewise_constant_lr"):
        nn.piecewise_constant_lr(milestone, [0.1, 0.2])


def test_counts_must_be_positive() -> None:
    with pytest.raises(ConfigurationError, match="decay_epoch 0 must be above 0"):
        nn.cosine_decay_lr(0.0, 0.1, 4, 2, 0)
