"""A list that must not run is refused, with its stage, its action and the rule that it breaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from mpiparallel.errors import ScheduleError
from mpiparallel.pipeline import Action, Costs, Kind, Placement, Schedule, check, make_schedule, parse
from mpiparallel.pipeline.rules import computed_together


def changed(schedule: Schedule, stage: int, change: Callable[[list[str]], object]) -> Schedule:
    """Return the schedule after ``change`` has been made to the words of one stage."""
    lines = str(schedule).splitlines()
    row = next(row for row, line in enumerate(lines) if line.startswith(f"stage {stage}:"))
    words = lines[row].split()[2:]
    change(words)
    lines[row] = " ".join([f"stage {stage}:", *words])
    return parse("\n".join(lines))


def swap(first: str, second: str) -> Callable[[list[str]], object]:
    def change(words: list[str]) -> None:
        one, other = words.index(first), words.index(second)
        words[one], words[other] = words[other], words[one]

    return change


def put(old: str, *new: str) -> Callable[[list[str]], object]:
    def change(words: list[str]) -> None:
        place = words.index(old)
        words[place : place + 1] = new

    return change


@pytest.mark.parametrize(
    ("name", "stage", "change", "message"),
    [
        ("1f1b", 2, put("F3"), r'stage 2, F3>3 \(send activations\): rule "order": it needs F3, which'),
        ("1f1b", 3, put("W3"), 'stage 3: rule "complete": 1 of its actions are missing: W3; add'),
        ("1f1b", 3, put("W3", "W3", "W3"), r'stage 3, W3 \(weight gradient\): rule "once"'),
        ("1f1b", 1, swap("I3", "W3"), r'stage 1, W3 \(weight gradient\): rule "order": it needs I3'),
        ("1f1b", 1, swap("F2", "I2"), r'stage 1, I2 \(input gradient\): rule "order": it needs F2'),
        ("1f1b", 1, swap("F2", "F2<0"), r'stage 1, F2 \(forward\): rule "order": it needs F2<0'),
        ("1f1b", 1, swap("I2", "I2<2"), r'stage 1, I2 \(input gradient\): rule "order": it needs I2<2'),
        ("1f1b", 1, swap("I2", "I2>0"), r'stage 1, I2>0 \(send gradients\): rule "order": it needs I2'),
        ("1f1b", 1, put("F2>2"), 'stage 1: rule "complete": 1 of its actions are missing: F2>2'),
        ("1f1b", 1, put("F2>2", "F2>3"), 'stage 1, F2>3 .*: rule "one message a border": .* stage 2; write F2>2'),
        ("1f1b", 0, put("F0", "F0", "F0<3"), 'stage 0, F0<3 .*: rule "one message a border": no other stage'),
        ("1f1b", 3, put("F0", "F0", "F0>0"), 'stage 3, F0>0 .*: rule "one message a border": no other stage'),
        ("1f1b", 0, put("U"), 'stage 0, R .*: rule "reduce and update last"'),
        ("1f1b", 0, put("R"), 'stage 0, U .*: rule "reduce and update last"'),
        ("1f1b", 0, put("F4", "R", "F4"), 'stage 0, R .*: rule "reduce and update last"'),
        ("1f1b", 0, lambda words: words.__delitem__(slice(-2, None)), 'stage 0: rule "complete": .*end with R U'),
        ("1f1b", 0, put("F4", "F8"), 'stage 0, F8 .*: rule "known": there are micro-batches 0 to 7, and chunks 0 to 0'),
        ("1f1b", 0, put("F4", "F4.1"), r'stage 0, F4\.1 .*: rule "known"'),
        ("zb_v", 3, swap("F5", "I5"), r'stage 3, I5 .*: rule "order": it needs F5, '),
        ("zb_v", 3, swap("F5", "F5.1"), r'stage 3, F5\.1 .*: rule "order": it needs F5, '),
        ("zb_v", 3, swap("I5", "I5.1"), r'stage 3, I5 .*: rule "order": it needs I5\.1, '),
    ],
)
def test_a_list_that_breaks_a_rule_is_refused_by_it(
    name: str, stage: int, change: Callable[[list[str]], object], message: str
) -> None:
    schedule = make_schedule(name, 4, 8)
    check(schedule)
    with pytest.raises(ScheduleError, match=f'schedule "{name}": {message}'):
        check(changed(schedule, stage, change))


def test_stages_that_wait_for_each_other_for_ever_are_named_with_their_actions() -> None:
    # Stage 0 waits with I0 for the gradient of 0, and sends 1 only afterwards; stage 1 computes 1 first.
    text = """
    micro-batches 2
    parts 0 1
    stage 0: F0 F0>1 F1 I0<1 I0 W0 F1>1 I1<1 I1 W1 R U
    stage 1: F1<0 F1 F0<0 F0 I0 I0>0 W0 I1 I1>0 W1 R U
    """
    with pytest.raises(ScheduleError, match=r'rule "no deadlock": stage 0 waits with I0, stage 1 waits with F1, each'):
        check(parse(text))


def test_computations_that_can_not_be_put_in_order_are_refused_before_messages_are_added() -> None:
    with pytest.raises(ScheduleError, match='"no deadlock": stage 0 waits with I1, stage 1 waits with F2'):
        parse("micro-batches 3\nparts 0 1\nstage 0: F0 F1 I1 W1 F2 I0 I2 W0 W2\nstage 1: F0 F2 I2 W2 I0 W0 F1 I1 W1")


def test_receives_right_before_their_use_are_safe_with_tagged_sends_only() -> None:
    text = """
    micro-batches 2
    parts 0 1
    stage 0: F0 F0>1 F1 F1>1 I0<1 I0 W0 I1<1 I1 W1 R U
    stage 1: F0<0 F0 I0 I0>0 W0 F1<0 F1 I1 I1>0 W1 R U
    """
    report = check(parse(text))
    assert report.stuck_if_blocking == "stage 0 would wait in F1>1, stage 1 would wait in I0>0"
    assert str(report).endswith(f"if sends blocked: {report.stuck_if_blocking}")
    assert str(check(make_schedule("1f1b", 2, 2, blocking=True))).endswith("if sends blocked: it would end, too")


def test_messages_that_overtake_each_other_are_safe_with_tagged_sends_only() -> None:
    text = """
    micro-batches 2
    parts 0 1
    stage 0: F0 F0>1 F1 F1>1 I0<1 I1<1 I0 W0 I1 W1 R U
    stage 1: F1<0 F0<0 F0 F1 I0 I1 W0 W1 I0>0 I1>0 R U
    """
    assert check(parse(text)).stuck_if_blocking == "stage 0 would wait in F0>1, stage 1 would wait in F1<0"


def test_a_schedule_has_one_list_a_stage() -> None:
    schedule = make_schedule("1f1b", 4, 8)
    with pytest.raises(ScheduleError, match="lists of 4 stages, and the parts name 2"):
        check(replace(schedule, placement=Placement((0, 1))))


def test_the_slowest_stage_sets_the_pace_and_idle_times_say_who_waits() -> None:
    # Stage 1 takes 6 a micro-batch, and is fed after 1. Its last input gradient leaves 2 before it ends; then stage 0
    # takes 1 for its own and 1 for the weight gradient. So 1 + 10 * 6 - 2 + 2.
    costs = Costs((1, 2), (1, 2), (1, 2), (0, 0))
    report = check(make_schedule("1f1b", 2, 10), costs)
    assert (report.step, report.bubble, report.idle) == (61, 1, (31, 1))


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        (lambda: Costs.even(3), "costs are of 3 stages, and it has 4"),
        (lambda: Costs((1, 1), (1,), (1, 1), (0, 0)), "input_gradient has times of 1 stages, forward of 2"),
        (lambda: Costs.even(4, weight_gradient=-1), "weight_gradient of stage 0 is -1; give a time of 0 or more"),
        (lambda: Costs.even(4, message=float("nan")), "message of stage 0 is nan"),
    ],
)
def test_times_that_are_none_are_refused(costs: Callable[[], Costs], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        check(make_schedule("1f1b", 4, 8), costs())


@pytest.mark.parametrize(
    ("name", "wrong", "chunks"),
    [
        ("1f1b", Action(Kind.FORWARD, -1), 0),
        ("1f1b", Action(Kind.FORWARD, 0, -1), 0),
        ("1f1b", Action(Kind.FORWARD, 8), 0),
        ("1f1b", Action(Kind.FORWARD, 9), 0),
        ("zb_v", Action(Kind.FORWARD, 7, 2), 1),
    ],
)
def test_numbers_that_are_not_there_are_refused_though_no_text_can_say_them(
    name: str, wrong: Action, chunks: int
) -> None:
    schedule = make_schedule(name, 4, 8)
    first, *others = schedule.actions
    there = f"there are micro-batches 0 to 7, and chunks 0 to {chunks} of this stage; name one of them"
    with pytest.raises(ScheduleError, match=f'stage 0, .* rule "known": {there}$'):
        check(replace(schedule, actions=((wrong, *first), *others)))


@pytest.mark.parametrize(("count", "told"), [(2, "W6, W7"), (3, "W5, W6, W7"), (4, "W4, W5, W6, ...")])
def test_three_actions_that_are_missing_are_named(count: int, told: str) -> None:
    def leave_out(words: list[str]) -> None:
        for number in range(8 - count, 8):
            words.remove(f"W{number}")

    with pytest.raises(
        ScheduleError, match=f'stage 3: rule "complete": {count} of its actions are missing: {told}; add'
    ):
        check(changed(make_schedule("1f1b", 4, 8), 3, leave_out))


def test_weight_gradients_that_follow_theirs_at_once_are_computed_with_them_but_those_of_the_first_part() -> None:
    schedule = make_schedule("1f1b", 2, 2, merged_backward=True)
    assert [set(map(str, computed_together(schedule, stage))) for stage in range(2)] == [set(), {"W0", "W1"}]
    at_once = make_schedule("1f1b", 2, 2)
    assert computed_together(at_once, 1) == frozenset()
