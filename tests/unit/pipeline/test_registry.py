"""Schedules by name, ours and MindSpore's."""

from __future__ import annotations

from typing import Any

import pytest

from mpiparallel.errors import ScheduleError
from mpiparallel.pipeline import SCHEDULES, Placement, make_schedule, schedule_name


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
        (("interleaved_1f1b", 4, 3), "take 4, or 1f1b"),
        (("interleaved_1f1b", 4, 6), "take 4 or 8, or 1f1b"),
        (("zb_v", 4, 6), "take 7 or more, or zb_h1"),
    ],
)
def test_numbers_that_make_no_schedule_are_refused_with_a_mend(arguments: Any, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        make_schedule(*arguments)


@pytest.mark.parametrize("stages", [(), (1,), (0, 2), (0, -1)])
def test_a_placement_leaves_no_stage_without_a_part(stages: tuple[int, ...]) -> None:
    with pytest.raises(ScheduleError, match="no stage without a part"):
        Placement(stages)
