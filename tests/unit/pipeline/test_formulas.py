"""Bubble, peak and messages of each schedule are those that its authors and the literature state."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mpiparallel.pipeline import SCHEDULES, Costs, Report, check, make_schedule
from tests.unit.pipeline.test_every_schedule import broken_rule

SIZES = [
    (stages, micro_batches) for stages in range(2, 9) for micro_batches in {stages, stages + 1, 2 * stages, 5 * stages}
]
# Forward, input gradient, weight gradient; whole numbers, so that the sums are exact.
V_SHAPED = ("zb_v", "zb_v_lean", "v_half")
SPLIT = ("zb_h1", *V_SHAPED)
COSTS = [(12, 12, 12), (12, 24, 12), (24, 36, 12), (12, 12, 6), (12, 24, 36)]


def report(
    name: str, stages: int, micro_batches: int, times: tuple[int, int, int], chunks: int | None = None
) -> Report:
    """Return what the checker says; an input gradient that is followed by its weight gradient leaves after that."""
    split = name in SPLIT
    schedule = make_schedule(name, stages, micro_batches, chunks, merged_backward=not split)
    return check(schedule, Costs.even(stages, *times))


@pytest.mark.parametrize("times", COSTS)
@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
def test_the_bubble_of_gpipe_and_1f1b_is_that_of_one_micro_batch_in_all_other_stages(
    name: str, times: tuple[int, int, int]
) -> None:
    for stages, micro_batches in SIZES:
        assert report(name, stages, micro_batches, times).bubble == (stages - 1) * sum(times)


@pytest.mark.parametrize("times", COSTS)
@pytest.mark.parametrize("chunks", [2, 3, 4])
def test_interleaving_divides_the_bubble_by_the_chunks(chunks: int, times: tuple[int, int, int]) -> None:
    for stages, micro_batches in SIZES:
        if micro_batches % stages == 0:
            found = report("interleaved_1f1b", stages, micro_batches, times, chunks)
            assert found.bubble == (stages - 1) * sum(times) / chunks


@pytest.mark.parametrize("times", [one for one in COSTS if one[2] <= min(one[:2])])
def test_zb_h1_takes_a_weight_gradient_a_stage_out_of_the_bubble(times: tuple[int, int, int]) -> None:
    forward, input_gradient, weight_gradient = times
    for stages, micro_batches in SIZES:
        found = report("zb_h1", stages, micro_batches, times)
        assert found.bubble == (stages - 1) * (forward + input_gradient - weight_gradient)


def test_the_bubble_of_zb_v_is_half_a_forward_pass_a_stage_where_all_passes_take_as_long() -> None:
    for stages, micro_batches in SIZES:
        if micro_batches >= 2 * stages - 1:
            assert report("zb_v", stages, micro_batches, (12, 12, 12)).bubble == (stages - 1) * 12 / 2


def test_lean_zb_v_has_half_a_forward_pass_more_bubble_and_holds_no_more_than_1f1b_with_gradients_that_wait() -> None:
    for stages in range(2, 17):
        for micro_batches in {2 * stages - 1, 2 * stages, 3 * stages + 1, 64}:
            found = report("zb_v_lean", stages, micro_batches, (12, 12, 12))
            assert found.bubble == stages * 12 / 2
            assert max(found.with_gradients) == stages == max(report("1f1b", stages, micro_batches, (1, 1, 1)).peaks)
            assert max(found.peaks) == stages


def test_at_4_stages_and_8_micro_batches_zero_bubbles_keep_what_is_promised() -> None:
    one = report("1f1b", 4, 8, (12, 12, 12))
    for name, most in (("zb_h1", 0.4), ("zb_v", 0.25), ("zb_v_lean", 0.25)):
        found = report(name, 4, 8, (12, 12, 12))
        assert found.bubble <= most * 3 * 36
        assert max(found.peaks) <= max(one.peaks)


def interleaved_peak(stages: int, micro_batches: int, stage: int) -> float:
    return min(2 * micro_batches, stages + 2 * (stages - 1 - stage) + 1) / 2


PEAKS: dict[str, Callable[[int, int, int], float]] = {
    "gpipe": lambda stages, micro_batches, stage: micro_batches,
    "1f1b": lambda stages, micro_batches, stage: min(micro_batches, stages - stage),
    "interleaved_1f1b": interleaved_peak,
    "zb_h1": lambda stages, micro_batches, stage: stages,
    "zb_v": lambda stages, micro_batches, stage: stages,
}


@pytest.mark.parametrize("name", PEAKS)
def test_each_stage_holds_the_activations_of_the_formula(name: str) -> None:
    for stages, micro_batches in SIZES:
        if (name == "interleaved_1f1b" and micro_batches % stages) or (
            name == "zb_v" and micro_batches < 2 * stages - 1
        ):
            continue
        expected = [PEAKS[name](stages, micro_batches, stage) for stage in range(stages)]
        assert list(report(name, stages, micro_batches, (1, 1, 1)).peaks) == expected


BUBBLES = {"gpipe": 36, "1f1b": 36, "interleaved_1f1b": 18, "zb_h1": 12, "zb_v": 6}


@pytest.mark.slow
@pytest.mark.parametrize("stages", range(2, 17))
@pytest.mark.parametrize("name", BUBBLES)
def test_bubble_and_peaks_of_2_to_16_stages_and_1_to_64_micro_batches_are_those_of_the_formulas(
    name: str, stages: int
) -> None:
    for micro_batches in range(1, 65):
        # Below as many micro-batches as stages no formula of ZB-H1 holds.
        if broken_rule(name, stages, micro_batches) or (name == "zb_h1" and micro_batches < stages):
            continue
        found = report(name, stages, micro_batches, (12, 12, 12))
        assert found.bubble == (stages - 1) * BUBBLES[name]
        assert list(found.peaks) == [PEAKS[name](stages, micro_batches, stage) for stage in range(stages)]


def test_v_half_holds_about_half_of_what_1f1b_holds() -> None:
    for stages in range(2, 17):
        for micro_batches in (2 * stages, 64):
            assert max(report("v_half", stages, micro_batches, (1, 1, 1)).peaks) == (stages + 2) // 2


@pytest.mark.parametrize(
    ("stages", "count", "stage", "order"),
    [
        # Passes begin at 0, 4, 8 and 13 and each six later; weight gradients take 9 and 17, which are free.
        (2, 3, 0, "F0 F0.1 F1 I0.1 W0.1 F1.1 F2 I0 I1.1 W1.1 F2.1 W0 I1 I2.1 W2.1 W1 I2 W2"),
        # They begin at 2, 3, 10 and 12, so 11 and 13 are free.
        (2, 2, 1, "F0 F0.1 F1 F1.1 I0.1 W0.1 I0 W0 I1.1 W1.1 I1 W1"),
        # At 0, 7, 8 and 16; free are 9 and 17.
        (3, 2, 0, "F0 F1 F0.1 I0.1 W0.1 F1.1 I1.1 W1.1 I0 W0 I1 W1"),
        # At 4, 5, 12 and 14; free are 13 and 15.
        (3, 2, 2, "F0 F0.1 F1 F1.1 I0.1 W0.1 I0 W0 I1.1 W1.1 I1 W1"),
    ],
)
def test_v_half_repeats_its_pattern_every_six_units(stages: int, count: int, stage: int, order: str) -> None:
    schedule = make_schedule("v_half", stages, count)
    computed = [str(action) for action in schedule.actions[stage] if action.peer is None]
    assert " ".join(computed) == f"{order} R U"


@pytest.mark.parametrize("name", SCHEDULES)
def test_each_border_between_stages_is_crossed_once_a_micro_batch_and_direction(name: str) -> None:
    parts = {"interleaved_1f1b": 2, "zb_v": 2, "zb_v_lean": 2, "v_half": 2}.get(name, 1)
    for stages in (2, 3, 4, 8):
        micro_batches = 2 * stages
        # In a V the last stage hands over to itself.
        borders = parts * (stages - 1) if name in V_SHAPED else parts * stages - 1
        assert report(name, stages, micro_batches, (1, 1, 1)).messages == 2 * micro_batches * borders


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "interleaved_1f1b"])
def test_an_input_gradient_that_leaves_before_the_weight_gradient_only_helps(name: str) -> None:
    for stages, micro_batches in SIZES:
        if name == "interleaved_1f1b" and micro_batches % stages:
            continue
        for times in COSTS:
            costs = Costs.even(stages, *times)
            at_once, merged = (
                check(make_schedule(name, stages, micro_batches, merged_backward=later), costs)
                for later in (False, True)
            )
            assert at_once.step <= merged.step
            assert at_once.peaks == merged.peaks


@pytest.mark.parametrize(
    ("name", "chunks", "even", "uneven", "late"),
    [
        ("gpipe", None, 33, 33, 33.6),
        ("1f1b", None, 33, 33, 34.6),
        ("interleaved_1f1b", 2, 28.5, 28.5, 29.9),
        ("interleaved_1f1b", 4, 26.25, 26.25, 29.25),
        ("zb_h1", None, 27, 28.2, 28.2),
        ("zb_v", None, 25.5, 25.8, 26.8),
        ("v_half", None, 30, 31.1, None),
    ],
)
def test_steps_take_as_long_as_in_another_simulation(
    name: str, chunks: int | None, even: float, uneven: float, late: float | None
) -> None:
    merged = name not in SPLIT
    schedule = make_schedule(name, 4, 8, chunks, merged_backward=merged)
    assert check(schedule).step == even
    assert check(schedule, Costs.even(4, 1, 1.2, 0.8)).step == pytest.approx(uneven)
    if late is not None:
        assert check(schedule, Costs.even(4, message=0.1)).step == pytest.approx(late)
