"""Quick estimates of plans, by sums that are made by hand from a profile of three layers and what is in none."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest

from mpiparallel.train.full_search.profile import LayerProfile
from mpiparallel.train.full_search.quick_estimate import QuickEstimator
from mpiparallel.train.full_search.training_plan import Plan

PROFILE = LayerProfile(
    forward=np.array([1.0, 2.0, 3.0, 0.0]),
    backward=np.array([2.0, 4.0, 6.0, 0.0]),
    step=np.array([0.25, 0.5, 1.0, 0.125]),
    kept=np.array([10.0, 20.0, 60.0, 4.0]),
    bordering=np.array([1.0, 2.0, 3.0, 0.0]),
    held=np.array([100.0, 200.0, 300.0, 50.0]),
    trained=np.array([10.0, 20.0, 30.0, 5.0]),
)
GPIPE = Plan(4, 2, 4, "gpipe")


@pytest.mark.parametrize(
    ("plan", "seconds", "bytes_needed"),
    [
        # 6 forward and 12 backward; 650 and 65 held, 94 kept, and the 60 of one layer at a time once more.
        (Plan(1), 18 + 1.875, 650 + 65 + 94 + 60),
        (Plan(1, micro_batches=3), 3 * 18 + 1.875, 650 + 65 + 3 * 94 + 60),
        # The forward pass of the third layer once more, of which only the border is kept.
        (Plan(1, micro_batches=3, recomputes=(2,)), 3 * 21 + 1.875, 650 + 65 + 3 * (94 - 57) + 60),
        # Two layers before the border and one behind it: 3 of each pass. Of four micro-batches 36 and a bubble of 6.
        # Each parameter has a sum of gradients too. The second stage, with what is in no layer, needs more.
        (GPIPE, 42 + 1.125, 350 + 2 * 35 + 4 * 64 + 60),
        # The first stage holds two micro-batches, the second one.
        (replace(GPIPE, schedule="1f1b"), 42 + 1.125, 350 + 2 * 35 + 64 + 60),
        # The first layer once more: all input gradients of the first stage take 4. From 18, when the first one comes,
        # it is busy with four times 7.
        (replace(GPIPE, recomputes=(0,)), 18 + 28 + 1.125, 350 + 2 * 35 + 4 * 64 + 60),
        # The third layer once more: from 15 on each gradient of the second stage takes 9, the last 3 of which the first
        # stage does not wait for. That ends 6 later.
        (replace(GPIPE, recomputes=(2,)), 15 + 36 - 3 + 6 + 1.125, 350 + 2 * 35 + 4 * 7 + 60),
    ],
)
def test_a_plan_takes_the_sums_of_its_layers(plan: Plan, seconds: float, bytes_needed: float) -> None:
    found = QuickEstimator(()).estimate(plan, PROFILE)
    assert found.seconds == seconds
    assert found.bytes == bytes_needed


def test_layers_are_where_the_user_has_put_them() -> None:
    found = QuickEstimator((), [0, 1, 1]).estimate(GPIPE, PROFILE)
    # The second stage has 5 of each pass, and begins after 1. The first one has ended before it.
    assert found.seconds == 1 + 4 * 15 + 1.625
    assert found.bytes == 550 + 2 * 55 + 4 * 84 + 60


@pytest.mark.parametrize(
    ("limit", "free", "again"),
    [
        # Of the third layer 57 need not be kept for 3 seconds, of the others 9 for each second.
        (869, (0, 1, 2), ()),
        (868, (0, 1, 2), (2,)),
        (812, (0, 1, 2), (2,)),
        (811, (0, 1, 2), (0, 2)),
        (803, (0, 1, 2), (0, 2)),
        (802, (0, 1, 2), (0, 1, 2)),
        (0, (0, 1, 2), (0, 1, 2)),
        (0, (0, 1), (0, 1)),
        (868, (1,), (1,)),
        (0, (), ()),
        (inf, (0, 1, 2), ()),
    ],
)
def test_the_layers_that_save_most_in_a_second_are_computed_again_until_it_fits(
    limit: float, free: tuple[int, ...], again: tuple[int, ...]
) -> None:
    assert QuickEstimator(free).recomputed(Plan(1), PROFILE, limit) == again


def test_each_stage_has_as_many_layers_computed_again_as_it_takes_itself() -> None:
    estimator = QuickEstimator((0, 1, 2))
    # The first stage needs 300 + 60 + 4 * 30 + 20 = 500, the second 350 + 70 + 4 * 64 + 60 = 736.
    assert estimator.recomputed(GPIPE, PROFILE, 736) == ()
    assert estimator.recomputed(GPIPE, PROFILE, 735) == (2,)
    assert estimator.recomputed(GPIPE, PROFILE, 499) == (0, 2)
    assert estimator.recomputed(GPIPE, PROFILE, 463) == (0, 1, 2)


def test_a_layer_of_which_nothing_need_not_be_kept_is_not_computed_again() -> None:
    border = replace(PROFILE, bordering=np.array([10.0, 2.0, 60.0, 0.0]))
    assert QuickEstimator((0, 1, 2)).recomputed(Plan(1), border, 0) == (1,)


def of(**changed: Any) -> LayerProfile:
    return replace(PROFILE, **{name: np.array(values) for name, values in changed.items()})


def test_a_profile_lies_between_two_as_far_as_is_said() -> None:
    other = of(forward=[3.0, 2.0, 1.0, 0.5], held=[0.0, 0.0, 0.0, 0.0])
    found = PROFILE.between(other, 0.25)
    assert found.forward.tolist() == [1.5, 2.0, 2.5, 0.125]
    assert found.held.tolist() == [75.0, 150.0, 225.0, 37.5]
    assert found.kept.tolist() == PROFILE.kept.tolist()


def test_what_another_has_changed_is_changed_too_but_nothing_falls_below_nothing() -> None:
    before, after = of(step=[1.0, 1.0, 1.0, 1.0]), of(step=[1.5, 1.0, 0.25, 0.0])
    found = PROFILE.changed(before, after)
    assert found.step.tolist() == [0.75, 0.5, 0.25, 0.0]
    assert found.trained.tolist() == PROFILE.trained.tolist()
