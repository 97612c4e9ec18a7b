"""Schedules by name, ours and MindSpore's."""

from __future__ import annotations

from typing import Any

import pytest

from mpiparallel.errors import ScheduleError
from mpiparallel.pipeline import SCHEDULES, Costs, Kind, Placement, check, make_schedule, schedule_name, time_line
from mpiparallel.pipeline.rules import rules_of


@pytest.mark.parametrize(
    ("scheduler", "interleave", "name"),
    [
        ("gpipe", False, "gpipe"),
        ("1f1b", False, "1f1b"),
        ("1f1b", True, "interleaved_1f1b"),
        ("zero_bubble_v", True, "zb_v"),
        ("zero_bubble_v", False, "zb_v"),
        *((name, False, name) for name in SCHEDULES),
        ("zb_v", True, "zb_v"),
        ("interleaved_1f1b", True, "interleaved_1f1b"),
    ],
)
def test_mindspores_names_lead_to_ours_and_ours_to_themselves(scheduler: str, interleave: bool, name: str) -> None:
    assert schedule_name(scheduler, interleave) == name


@pytest.mark.parametrize(
    ("scheduler", "interleave", "mend"),
    [
        ("seqpipe", False, "cuts micro-batches along the sequence, which is not offered; take '1f1b'"),
        ("seqvpp", True, "cuts micro-batches along the sequence"),
        ("seqsmartvpp", True, "cuts micro-batches along the sequence"),
        ("gpipe", True, "one chunk a stage"),
        ("zb_h1", True, "one chunk a stage"),
        ("dualpipe", False, "there are gpipe, 1f1b, interleaved_1f1b, zb_h1, zb_v, zb_v_lean, v_half"),
    ],
)
def test_names_of_what_is_not_offered_are_refused_with_what_is(scheduler: str, interleave: bool, mend: str) -> None:
    with pytest.raises(ScheduleError, match=mend):
        schedule_name(scheduler, interleave)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dualpipe", 4, 8), 'no schedule "dualpipe"'),
        (("1f1b", 0, 8), "stages=0"),
        (("1f1b", 4, True), "micro_batches=True"),
        (("1f1b", 4, 2.0), "micro_batches=2.0"),
        (("interleaved_1f1b", 4, 8, 0), "chunks=0"),
        (("1f1b", 4, 8, 2), "chunks=2, and it has 1 a stage"),
        (("zb_v", 4, 8, 3), "chunks=3, and it has 2 a stage"),
        (("zb_v", 4, 8, 1), "chunks=1, and it has 2 a stage; leave chunks out, or take interleaved_1f1b$"),
        (("1f1b", 4, -8), "micro_batches=-8; give a whole number from 1"),
        (("interleaved_1f1b", 4, 3), ": 3 micro-batches are no multiple of 4 stages; take 4, or 1f1b$"),
        (("interleaved_1f1b", 4, 6), "take 4 or 8, or 1f1b"),
        (("interleaved_1f1b", 4, 9), ": 9 micro-batches are no multiple of 4 stages; take 8 or 12, or 1f1b$"),
        (("zb_v", 4, 6), "take 7 or more, or zb_h1"),
        (("zb_v_lean", 3, 4), ": 4 micro-batches do not fill 3 stages; take 5 or more, or zb_h1$"),
    ],
)
def test_numbers_that_make_no_schedule_are_refused_with_a_mend(arguments: Any, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        make_schedule(*arguments)


@pytest.mark.parametrize("stages", [(), (1,), (0, 2), (0, -1)])
def test_a_placement_leaves_no_stage_without_a_part(stages: tuple[int, ...]) -> None:
    with pytest.raises(ScheduleError, match="no stage without a part"):
        Placement(stages)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("gpipe", 3, 1), (0, 1, 2)),
        (("1f1b", 1, 1, 1), (0,)),
        # The last stages owe more weight gradients than there are.
        (("zb_h1", 5, 2), (0, 1, 2, 3, 4)),
        (("interleaved_1f1b", 2, 2), (0, 1, 0, 1)),
        (("interleaved_1f1b", 2, 2, 3), (0, 1, 0, 1, 0, 1)),
        (("zb_v", 2, 3, 2), (0, 1, 1, 0)),
        (("zb_v_lean", 2, 3), (0, 1, 1, 0)),
        (("v_half", 3, 1), (0, 1, 2, 2, 1, 0)),
    ],
)
def test_the_least_numbers_make_a_schedule_whose_parts_lie_in_loops_or_in_a_v(
    arguments: Any, parts: tuple[int, ...]
) -> None:
    schedule = make_schedule(*arguments)
    assert schedule.placement.stages == parts
    assert schedule.stages == max(parts) + 1
    assert check(schedule).step > 0


def test_a_placement_knows_who_is_before_and_behind_each_chunk() -> None:
    turned = Placement.v_shape(3)
    assert [[turned.before(stage, chunk) for chunk in range(2)] for stage in range(3)] == [[None, 1], [0, 2], [1, 2]]
    assert [[turned.behind(stage, chunk) for chunk in range(2)] for stage in range(3)] == [[1, None], [2, 0], [2, 1]]
    assert Placement.loops(3).stages == (0, 1, 2)


@pytest.mark.parametrize("stages", [2, 300])
def test_on_the_last_stage_of_a_v_the_second_chunk_waits_for_the_first_and_back(stages: int) -> None:
    first, second = rules_of(Placement.v_shape(stages), stages - 1)
    waits = [rule.neighbour for rule in (second[Kind.FORWARD], first[Kind.INPUT_GRADIENT]) if rule is not None]
    assert waits == [0, 1]


def test_messages_leave_at_once_unless_sends_block_or_both_gradients_are_one_program() -> None:
    by_default = make_schedule("1f1b", 2, 2)
    assert by_default == make_schedule("1f1b", 2, 2, merged_backward=False, blocking=False)
    words = [str(action) for action in make_schedule("1f1b", 2, 2, merged_backward=True).actions[1]]
    assert words == ["F0<0", "F1<0", "F0", "I0", "W0", "I0>0", "F1", "I1", "W1", "I1>0", "R", "U"]
    assert len({str(make_schedule("1f1b", 2, 2, merged_backward=one)) for one in (False, True)}) == 2


def test_messages_and_endings_take_no_time_and_a_pipeline_of_hundreds_of_stages_would_end_if_sends_blocked() -> None:
    schedule = make_schedule("gpipe", 300, 1, blocking=True)
    assert check(schedule).stuck_if_blocking == ""
    lines = time_line(make_schedule("1f1b", 2, 2), Costs.even(2, 1, 2, 4, 8))
    times = {kind: {one.end - one.begin for one in lines if one.action.kind is kind} for kind in Kind}
    assert times == {kind: {1 << kind} if kind <= Kind.WEIGHT_GRADIENT else {0} for kind in Kind}
