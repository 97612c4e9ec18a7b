"""What a report of a schedule says, with figures that are counted by hand."""

from __future__ import annotations

import pytest

from mpiparallel.pipeline import Costs, Panel, Report, check, drawn_text, make_schedule, parse


def test_a_report_says_step_bubble_and_its_share_what_is_held_and_what_travels() -> None:
    # Eleven times 3 for a micro-batch in turn: eight of its own, and three in the other stages.
    report = check(make_schedule("1f1b", 4, 8, merged_backward=True, blocking=True))
    assert str(report).splitlines() == [
        "step 33, bubble 9 (27% of the step)",
        "activations held by each stage, at most: 4 3 2 1 micro-batches",
        "of layers of products, with the gradients that wait for a weight gradient: 4 3 2 1",
        "48 messages between stages",
        "if sends blocked: it would end, too",
    ]
    assert report.idle == (9, 9, 9, 9)


def test_where_nothing_takes_time_no_share_of_it_is_idle() -> None:
    report = check(make_schedule("gpipe", 2, 2), Costs.even(2, 0, 0, 0))
    assert (report.step, report.bubble) == (0, 0)
    assert str(report).startswith("step 0, bubble 0 (0% of the step)\n")


def test_idle_time_of_a_stage_is_all_but_its_own_work_and_the_bubble_that_of_the_busiest() -> None:
    # Stage 0 takes 3 for each of two, stage 1 takes 6: it begins after 1. Its last input gradient leaves 2 before its
    # end, and stage 0 needs 2 from then on.
    report = check(make_schedule("gpipe", 2, 2), Costs((1, 2), (1, 2), (1, 2), (0, 0)))
    assert (report.step, report.bubble, report.idle) == (13, 1, (7, 1))


@pytest.mark.parametrize(
    ("merged_backward", "held"),
    [
        # The last stage has an input gradient beside its activations until it has been sent: one and one.
        (False, (2.0, 2.0)),
        # Where it is sent after the weight gradient, both are computed together.
        (True, (2.0, 1.0)),
    ],
)
def test_gradients_that_wait_count_unless_they_are_computed_together_with_those_of_weights(
    merged_backward: bool, held: tuple[float, float]
) -> None:
    report = check(make_schedule("1f1b", 2, 2, merged_backward=merged_backward))
    assert report.with_gradients == held
    assert report.peaks == (2.0, 1.0)


def test_a_stage_that_puts_off_weight_gradients_holds_activations_and_gradients_of_all() -> None:
    text = """
    micro-batches 3
    parts 0 1
    stage 0: F0 F1 F2 I0 I1 I2 W0 W1 W2
    stage 1: F0 F1 F2 I0 I1 I2 W0 W1 W2
    """
    report = check(parse(text))
    assert report.peaks == (3.0, 3.0)
    # The first part of the network has no input gradient; there only activations are held.
    assert report.with_gradients == (3.0, 6.0)


def test_the_first_part_lets_go_of_activations_with_its_weight_gradient() -> None:
    report = check(parse("micro-batches 2\nparts 0\nstage 0: F0 I0 F1 W0 I1 W1"))
    assert report.peaks == report.with_gradients == (2.0,)


def test_what_chunks_hold_counts_as_a_part_of_their_stage() -> None:
    report = check(
        parse("micro-batches 1\nparts 0 1 1 0\nstage 0: F0 F0.1 I0.1 I0 W0.1 W0\nstage 1: F0 F0.1 I0.1 I0 W0 W0.1")
    )
    assert report.peaks == (1.0, 1.0)
    # Stage 0: two activations and a gradient that waits. Stage 1: two of each. Both halves of a micro-batch.
    assert report.with_gradients == (1.5, 2.0)


@pytest.mark.parametrize(("stages", "more"), [(3, ""), (4, ", ...")])
def test_of_many_that_would_wait_three_are_named(stages: int, more: str) -> None:
    # Each posts the receive of its gradient, and waits for it, before it sends what that is made of.
    middle = [f"F0<{at - 1} F0 I0<{at + 1} F0>{at + 1} I0 I0>{at - 1} W0" for at in range(1, stages - 1)]
    rows = ["F0 I0<1 F0>1 I0 W0", *middle, f"F0<{stages - 2} F0 I0 I0>{stages - 2} W0"]
    lists = [f"stage {stage}: {row} R U" for stage, row in enumerate(rows)]
    parts = f"parts {' '.join(map(str, range(stages)))}"
    assert check(parse("\n".join(["micro-batches 1", parts, *lists]))).stuck_if_blocking == (
        f"stage 0 would wait in I0<1, stage 1 would wait in F0<0, stage 2 would wait in F0<1{more}"
    )


def test_a_plan_is_noted_with_its_step_bubble_and_the_most_that_a_stage_holds() -> None:
    panel = Panel.planned("1F1B", make_schedule("1f1b", 4, 8))
    assert panel.note == "step 30, of which bubble 6; a stage holds activations of 4 micro-batches at most"
    assert (panel.stages, panel.end) == (4, 30)
    nothing = Panel("measured", "", [])
    assert (nothing.stages, nothing.end) == (0, 0)
    assert drawn_text(panel).startswith(f"1F1B: {panel.note}\n")


def test_reports_of_equal_schedules_are_equal() -> None:
    one, other = (check(make_schedule("zb_h1", 3, 4)) for _ in range(2))
    assert isinstance(one, Report)
    assert one == other
    assert one != check(make_schedule("zb_h1", 3, 5))
