"""What the checker says of time, memory and waiting for ever is what a graph of events says, written another way."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpiparallel.errors import ScheduleError
from mpiparallel.pipeline import (
    SCHEDULES,
    Action,
    Costs,
    Kind,
    Placement,
    Schedule,
    check,
    make_schedule,
    time_line,
)
from mpiparallel.pipeline.messages import with_messages
from tests.unit.pipeline.event_simulation import ends_with_rendezvous, most_at_once, simulated
from tests.unit.pipeline.test_every_schedule import broken_rule

KINDS = (Kind.FORWARD, Kind.INPUT_GRADIENT, Kind.WEIGHT_GRADIENT)


def uneven(stages: int, chance: random.Random) -> Costs:
    return Costs(*(tuple(chance.randint(least, 9) / 2 for _ in range(stages)) for least in (1, 1, 1, 0)))


def agree(schedule: Schedule, costs: Costs) -> None:
    """Hold the checker to the graph of events; also for lists in which stages wait for ever."""
    expected = simulated(schedule, costs)
    if expected is None:
        with pytest.raises(ScheduleError, match="no deadlock"):
            check(schedule, costs)
        return
    report = check(schedule, costs)
    ends = {}
    for stage in range(schedule.stages):
        own = [timed for timed in time_line(schedule, costs) if timed.stage == stage]
        ends.update({(stage, place): timed.end for place, timed in enumerate(own)})
    assert ends == pytest.approx(expected)
    assert report.step == pytest.approx(max(expected.values()))
    peaks = [most_at_once(schedule, costs, stage, expected) for stage in range(schedule.stages)]
    assert list(report.peaks) == peaks
    assert (report.stuck_if_blocking == "") == ends_with_rendezvous(schedule)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("blocking", [False, True])
def test_times_and_peaks_of_each_schedule_are_those_of_the_graph_of_events(name: str, blocking: bool) -> None:
    chance = random.Random(name)
    for stages, micro_batches in ((1, 3), (2, 4), (3, 6), (4, 8), (5, 15)):
        for merged in (False, True):
            schedule = make_schedule(name, stages, micro_batches, merged_backward=merged, blocking=blocking)
            agree(schedule, Costs.even(stages))
            agree(schedule, uneven(stages, chance))


def agree_elsewhere(name: str, stages: int, numbers: Iterable[int]) -> None:
    """Hold both to each other also where no formula is stated: few micro-batches, computations of any length."""
    for micro_batches in numbers:
        if not broken_rule(name, stages, micro_batches):
            schedule = make_schedule(name, stages, micro_batches)
            agree(schedule, Costs.even(stages))
            agree(schedule, uneven(stages, random.Random(f"{name} {stages} {micro_batches}")))


@pytest.mark.parametrize("name", SCHEDULES)
def test_both_agree_of_fewer_micro_batches_than_stages_and_of_more(name: str) -> None:
    for stages in (3, 4):
        agree_elsewhere(name, stages, (1, stages - 1, stages, 2 * stages + 1))


@pytest.mark.slow
@pytest.mark.parametrize("stages", range(2, 17))
@pytest.mark.parametrize("name", SCHEDULES)
def test_both_agree_of_2_to_16_stages_and_drawn_numbers_of_micro_batches(name: str, stages: int) -> None:
    drawn = random.Random(f"{name} {stages}").sample(range(1, 65), 4)
    agree_elsewhere(name, stages, (1, stages - 1, stages, 2 * stages, *drawn))


def any_order(chance: random.Random, micro_batches: int, placement: Placement) -> list[list[Action]]:
    """Return computations in any order that can be played from the first to the last."""
    orders: list[list[Action]] = [[] for _ in placement.parts]
    last = len(placement.stages) - 1
    left = [(0, one, kind) for kind in KINDS[:1] for one in range(micro_batches)]
    while left:
        part, one, kind = left.pop(chance.randrange(len(left)))
        orders[placement.stages[part]].append(Action(kind, one, placement.chunks[part]))
        if kind is Kind.FORWARD:
            left.append((part + 1, one, kind) if part < last else (part, one, Kind.INPUT_GRADIENT))
        elif kind is Kind.INPUT_GRADIENT:
            left.append((part, one, Kind.WEIGHT_GRADIENT))
            left += [(part - 1, one, kind)] * (part > 0)
    return orders


@settings(max_examples=60, deadline=None)
@given(
    stages=st.sampled_from(
        [(0, 1), (0, 1, 2), (0, 1, 1, 0), (0, 1, 0, 1), (0, 0, 1), (2, 0, 1, 0), (0, 1, 2, 2, 1, 0)]
    ),
    micro_batches=st.integers(1, 5),
    blocking=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_any_order_that_can_be_computed_gets_messages_that_never_wait_for_ever(
    stages: tuple[int, ...], micro_batches: int, blocking: bool, seed: int
) -> None:
    chance, placement = random.Random(seed), Placement(stages)
    orders = any_order(chance, micro_batches, placement)
    actions = with_messages("any", micro_batches, placement, orders, blocking=blocking)
    schedule = Schedule("any", micro_batches, placement, actions)
    assert check(schedule).stuck_if_blocking == "" or not blocking
    agree(schedule, uneven(len(placement.parts), chance))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), swaps=st.integers(1, 6), blocking=st.booleans())
def test_lists_whose_messages_are_put_elsewhere_wait_for_ever_only_where_events_form_a_circle(
    seed: int, swaps: int, blocking: bool
) -> None:
    chance = random.Random(seed)
    schedule = make_schedule(chance.choice(["1f1b", "zb_h1", "v_half"]), 3, 5, blocking=blocking)
    lists = [list(actions) for actions in schedule.actions]
    for _ in range(swaps):
        own = lists[chance.randrange(len(lists))]
        first = chance.randrange(len(own) - 3)
        own[first], own[first + 1] = own[first + 1], own[first]
    moved = replace(schedule, actions=tuple(map(tuple, lists)))
    try:
        check(moved)
    except ScheduleError as error:
        if "no deadlock" not in str(error):
            return
    agree(moved, uneven(3, chance))


def test_a_circle_of_waits_is_found_by_both() -> None:
    first = [Action(kind, one) for kind, one in ((KINDS[0], 0), (KINDS[0], 1), (KINDS[1], 1), (KINDS[2], 1))]
    first += [Action(KINDS[1], 0), Action(KINDS[2], 0)]
    second = [Action(kind, one) for one in (0, 1) for kind in KINDS]
    schedule = Schedule("x", 2, Placement((0, 1)), with_messages("x", 2, Placement((0, 1)), [first, second]))
    agree(schedule, Costs.even(2))
    # The second stage now gives the gradient of 1 only after that of 0 has been taken, and takes 0 in after 1.
    lists = [list(actions) for actions in schedule.actions]
    early = lists[0].pop(lists[0].index(Action(Kind.SEND_ACTIVATIONS, 1, 0, 1)))
    lists[0].insert(lists[0].index(Action(Kind.INPUT_GRADIENT, 0)), early)
    stuck = replace(schedule, actions=tuple(map(tuple, lists)))
    assert simulated(stuck, Costs.even(2)) is None
    agree(stuck, Costs.even(2))
