"""Learning-rate tables against their formulas, and used by an optimizer."""

from __future__ import annotations

from collections.abc import Callable

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


@pytest.mark.parametrize("milestone", [[], [3, 2], [0, 2], [1, 2, 3], [4], [2, 2]])
def test_milestones_that_do_not_fit_are_refused(milestone) -> None:
    with pytest.raises(ConfigurationError, match="piecewise_constant_lr"):
        nn.piecewise_constant_lr(milestone, [0.1, 0.2])


COUNTED: list[tuple[str, Callable[..., list[float]], tuple[float, ...], list[str]]] = [
    ("exponential_decay_lr", nn.exponential_decay_lr, (0.1, 0.9), ["total_step", "step_per_epoch", "decay_epoch"]),
    ("cosine_decay_lr", nn.cosine_decay_lr, (0.0, 0.1), ["total_step", "step_per_epoch", "decay_epoch"]),
    ("polynomial_decay_lr", nn.polynomial_decay_lr, (0.1, 0.0), ["total_step", "step_per_epoch", "decay_epoch"]),
    ("warmup_lr", nn.warmup_lr, (0.1,), ["total_step", "step_per_epoch", "warmup_epoch"]),
]


@pytest.mark.parametrize(("name", "make", "rates", "counts"), COUNTED)
def test_counts_must_be_positive(
    name: str, make: Callable[..., list[float]], rates: tuple[float, ...], counts: list[str]
) -> None:
    more = {"power": 1.0} if "polynomial" in name else {}
    for count in counts:
        given = dict.fromkeys(counts, 1)
        assert len(make(*rates, **given, **more)) == 1
        for wrong in (0, -1):
            with pytest.raises(ConfigurationError, match=f"^{name}: {count} {wrong} must be above 0$"):
                make(*rates, **{**given, count: wrong}, **more)


def test_rates_along_a_cosine_are_rounded_to_fifteen_digits() -> None:
    # Half a cosine after one of three parts is 3/4, after two 1/4; floats miss 0.525 and 0.6 by one part in 10 ** 16.
    assert nn.cosine_decay_lr(0.0, 0.7, 4, 1, 3)[1] == 0.525
    assert nn.cosine_decay_lr(0.0, 0.8, 4, 1, 3)[1] == 0.6


@pytest.mark.parametrize(
    ("milestone", "said"),
    [
        ([], "give as many learning_rates as milestones, at least one"),
        ([1], "give as many learning_rates as milestones, at least one"),
        ([3, 1], r"milestone \[3, 1\] must rise, from 1 on"),
        ([0, 1], r"milestone \[0, 1\] must rise, from 1 on"),
    ],
)
def test_what_is_wrong_with_milestones_is_said(milestone: list[int], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        nn.piecewise_constant_lr(milestone, [0.1, 0.2])


def test_a_table_without_milestones_and_rates_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least one"):
        nn.piecewise_constant_lr([], [])
