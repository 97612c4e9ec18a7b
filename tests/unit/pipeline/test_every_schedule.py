"""Schedules of 2 to 16 stages and 1 to 64 micro-batches pass the checker, or are refused by the rule they break."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from mpiparallel.errors import ScheduleError
from mpiparallel.pipeline import SCHEDULES, check, make_schedule
from mpiparallel.pipeline.blocking import stuck_if_blocking


def broken_rule(name: str, stages: int, micro_batches: int) -> str:
    if name == "interleaved_1f1b" and micro_batches % stages:
        return "micro-batches divisible by stages"
    if name in ("zb_v", "zb_v_lean") and micro_batches < 2 * stages - 1:
        return "2p - 1 micro-batches for p stages"
    return ""


def holds(name: str, stages: int, numbers: Iterable[int]) -> None:
    for micro_batches in numbers:
        rule = broken_rule(name, stages, micro_batches)
        if rule:
            with pytest.raises(ScheduleError, match=f'schedule "{name}": rule "{rule}"'):
                make_schedule(name, stages, micro_batches)
            continue
        report = check(make_schedule(name, stages, micro_batches))
        assert report.step >= 3 * micro_batches
        assert max(report.peaks) <= micro_batches
        assert stuck_if_blocking(make_schedule(name, stages, micro_batches, blocking=True)) == ""


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_pass_before_and_after_all_stages_are_full(name: str) -> None:
    holds(name, 2, range(1, 65))
    for stages in range(3, 17):
        holds(name, stages, {1, stages - 1, stages, stages + 1, 2 * stages - 2, 2 * stages - 1, 2 * stages})
    holds(name, 16, {64})


@pytest.mark.slow
@pytest.mark.parametrize("stages", range(2, 17))
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_passes(name: str, stages: int) -> None:
    holds(name, stages, range(1, 65))
