"""Moves in which something goes wrong once: what every rank must know after it, and how they go on or back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import ReshardError
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard import Movement, ReshardOptions
from tests.conformance.resharding.reshard_cases import EXECUTORS, MODES, Case
from tests.conformance.resharding.reshard_claims import assert_state
from tests.conformance.resharding.reshard_states import state

SCRATCH = {"one window": 64 << 20, "many windows": 4096}
VICTIM = 1

every_way = pytest.mark.parametrize(
    ("executor", "mode", "windows"),
    [(executor, mode, windows) for executor in EXECUTORS for mode in MODES for windows in SCRATCH],
)


class Outcome(NamedTuple):
    """What one rank saw: the error of its first attempt, and where the tensors were after it."""

    error: str | None
    layouts: dict[str, Layout]


def case_of(executor: str, mode: str, windows: str, **options: Any) -> Case:
    """Return a move; in bounded mode every tensor is a wave."""
    return state(executor=executor, mode=mode, scratch_bytes=SCRATCH[windows], wave_bytes=1, **options)


def move_with_a_fault(communicator: Communicator, case: Case, then: str) -> Outcome:
    """Move forward until the fault, check that the state is consistent, and go on or back, without it."""
    given = case.given(communicator.rank)
    moving = Movement(dict(given), case.source, case.target, communicator, ReshardOptions(**case.options))
    error = None
    try:
        moving.forward()
    except ReshardError as raised:
        error = str(raised)
    layouts = dict(moving.layouts)
    assert_state(case, moving.arrays, layouts, communicator.rank)
    assert_state(case, given, case.source, communicator.rank)
    getattr(moving, then)()
    end = case.target if then == "forward" else case.source
    assert moving.layouts == end
    assert_state(case, moving.arrays, end, communicator.rank)
    return Outcome(error, layouts)


def agreed(outcomes: Sequence[Outcome], case: Case) -> Outcome:
    """Return the outcome of all ranks: they know one state, which in safe mode is the old or the new one."""
    assert all(outcome.layouts == outcomes[0].layouts for outcome in outcomes)
    assert len({outcome.error is None for outcome in outcomes}) == 1
    first = outcomes[0]
    if first.error is None:
        assert first.layouts == case.target
    elif case.options["mode"] == "safe":
        assert first.layouts == case.source
    else:
        assert all(layout in (case.source[name], case.target[name]) for name, layout in first.layouts.items())
    return first
