"""Training with a scaled loss: how the scale rises and falls, what an overflow leaves, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, nn
from mpiparallel.errors import ConfigurationError

GOOD, BAD = 1.0, np.inf


def made(scale: Any, rate: float = 0.0) -> nn.TrainOneStepWithLossScaleCell:
    network = nn.WithLossCell(nn.Dense(1, 1, weight_init="zeros"), nn.MSELoss())
    return nn.TrainOneStepWithLossScaleCell(network, nn.SGD(network.trainable_params(), rate), scale)


def steps(step: nn.TrainOneStepWithLossScaleCell, inputs: list[float]) -> list[tuple[bool, float]]:
    """Return whether each step has overflowed, and the scale that it used."""
    found = []
    for x in inputs:
        _, overflow, scale = step(Tensor([[np.float32(x)]]), Tensor([[np.float32(2.0)]]))
        found.append((bool(overflow.asnumpy()), float(scale.asnumpy())))
    return found


@pytest.mark.parametrize(
    ("cell", "inputs", "scales"),
    [
        ((8.0, 2, 2), [GOOD] * 5, [8, 8, 16, 16, 32]),
        ((8.0, 4, 1), [GOOD] * 3, [8, 32, 128]),
        ((8.0, 2, 2), [GOOD, GOOD, BAD, GOOD, GOOD, GOOD], [8, 8, 16, 8, 8, 16]),
        ((8.0, 2, 2), [BAD, BAD, GOOD, GOOD], [8, 4, 2, 2]),
        ((2.0, 4, 1000), [BAD, BAD, GOOD], [2, 1, 1]),
    ],
)
def test_an_overflow_divides_the_scale_and_a_window_without_one_multiplies_it(
    cell: tuple[float, int, int], inputs: list[float], scales: list[float]
) -> None:
    found = steps(made(nn.DynamicLossScaleUpdateCell(*cell)), inputs)
    assert found == [(x == BAD, scale) for x, scale in zip(inputs, scales, strict=True)]


@pytest.mark.parametrize("scale", [Tensor(np.float32(8.0)), 8.0, 8, nn.FixedLossScaleUpdateCell(8.0)])
def test_a_fixed_scale_stays_and_an_overflow_changes_no_weight(scale: Any) -> None:
    step = made(scale, rate=0.25)
    assert steps(step, [BAD, GOOD]) == [(True, 8.0), (False, 8.0)]
    # The loss is (w + b - 2) ** 2 with both at 0: each gradient is -4, and the first step has changed nothing.
    assert [one.asnumpy().item() for one in step.network.trainable_params()] == [1.0, 1.0]
    assert step.optimizer.step == 1


def test_a_scale_that_is_set_is_used_from_the_next_step_on() -> None:
    step = made(8.0)
    for given in (Tensor(np.float32(32.0)), 64.0):
        step.set_sense_scale(given)
        assert steps(step, [GOOD])[0][1] == float(given)


def test_a_scale_and_its_counts_are_saved_and_not_trained() -> None:
    step = made(nn.DynamicLossScaleUpdateCell(8.0, 2, 2))
    names = {one.name for one in step.untrainable_params() if not one.transient}
    assert {"scale_sense", "current_iterator_step", "last_overflow_iterator_step"} <= names
    assert [one.name for one in step.trainable_params()] == ["weight", "bias"]


def test_only_a_scale_above_its_lowest_is_being_sought() -> None:
    assert not made(8.0).seeks_scale
    dynamic = made(nn.DynamicLossScaleUpdateCell(2.0, 2, 100))
    assert dynamic.seeks_scale
    steps(dynamic, [BAD])
    assert not dynamic.seeks_scale


REFUSED: list[tuple[Callable[[], Any], str]] = [
    *(
        (
            lambda wrong=wrong: nn.FixedLossScaleUpdateCell(wrong),
            f"FixedLossScaleUpdateCell: loss_scale_value {wrong!r} must be a number above 0",
        )
        for wrong in (0, -1.0, True, "8", np.inf, np.nan, None)
    ),
    *(
        (
            lambda wrong=wrong: nn.DynamicLossScaleUpdateCell(8.0, wrong, 2),
            f"DynamicLossScaleUpdateCell: scale_factor {wrong!r} must be a number above 1",
        )
        for wrong in (1, 0.5, True, "2")
    ),
    (
        lambda: nn.DynamicLossScaleUpdateCell(8.0, 2, 0),
        "DynamicLossScaleUpdateCell: scale_window 0 must be a number above 0",
    ),
]


@pytest.mark.parametrize(("make", "said"), REFUSED)
def test_what_is_no_scale_is_refused(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{said}$"):
        make()


def test_an_optimizer_that_takes_the_scale_back_itself_is_refused() -> None:
    network = nn.WithLossCell(nn.Dense(1, 1), nn.MSELoss())
    optimizer = nn.SGD(network.trainable_params(), 0.1, loss_scale=8.0)
    with pytest.raises(ConfigurationError, match=r"give SGD loss_scale=1\.0, not 8\.0"):
        nn.TrainOneStepWithLossScaleCell(network, optimizer, 8.0)


def test_small_numbers_and_numpys_own_are_scales() -> None:
    for scale in (np.float32(0.5), np.int64(3), 1e-3):
        assert nn.FixedLossScaleUpdateCell(scale).get_loss_scale() == float(scale)
    assert nn.DynamicLossScaleUpdateCell(8.0, 1.5, 1).get_loss_scale() == 8.0
