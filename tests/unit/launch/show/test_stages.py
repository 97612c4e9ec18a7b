"""The time lines of stages by the cost model: in milliseconds, under the title of their schedule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mpiparallel.launch.show import stages
from mpiparallel.launch.show.stages import stages_panel, stages_text
from mpiparallel.pipeline.action import Action, Kind
from mpiparallel.pipeline.timing import TimedAction
from mpiparallel.search.forecast.timeline import StageTime
from tests.unit.launch.show.made_forecast import forecast, stage

NOTE = "a step of 4 s, of which a stage is idle 25 %; milliseconds by the cost model"


@pytest.mark.parametrize(
    ("schedule", "title"), [("gpipe", "GPipe"), ("zb_h1", "ZB-H1"), ("my own", "my own"), ("a\x1b[1mb", None)]
)
def test_a_known_schedule_has_its_title_and_another_its_name_without_what_moves_the_cursor(
    schedule: str, title: str | None
) -> None:
    panel = stages_panel(forecast(schedule=schedule))
    assert panel is not None
    assert panel.note == NOTE
    if title is None:
        assert "\x1b" not in panel.title
    else:
        assert panel.title == title


def test_actions_of_all_stages_are_in_milliseconds() -> None:
    panel = stages_panel(forecast())
    assert panel is not None
    action = Action(Kind.FORWARD, 0)
    assert panel.actions == [TimedAction(0, action, 0.0, 2000.0), TimedAction(1, action, 2000.0, 4000.0)]


def test_three_quarters_of_a_step_that_stages_wait_are_told_as_such() -> None:
    panel = stages_panel(forecast(*(stage(number, time=StageTime(1.0, 3.0)) for number in range(2))))
    assert panel is not None
    assert panel.note.startswith("a step of 4 s, of which a stage is idle 75 %; ")


def test_one_stage_has_no_time_line() -> None:
    assert stages_panel(forecast(stage(0))) is None
    assert stages_text(forecast(stage(0))) == ""


def test_each_stage_is_a_line_below_the_title() -> None:
    title, first, second, legend = stages_text(forecast()).splitlines()
    assert title == f"GPipe: {NOTE}"
    assert (first[:11], second[:10]) == ("stage 0  F0", "stage 1  .")
    assert legend == "F forward, . idle"


def drawn(count: int) -> str:
    """Return the first line of a stage that does so many actions, one after the other."""
    actions = tuple(TimedAction(0, Action(Kind.FORWARD, one), float(one), one + 1.0) for one in range(count))
    long = replace(stage(0), time=StageTime(float(count), 0.0, 0.0, actions))
    return stages_text(forecast(long, stage(1))).splitlines()[1]


@pytest.mark.parametrize("width", [60, 200])
def test_a_long_line_is_as_wide_as_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "terminal_width", lambda: width)
    assert width - 1 <= len(drawn(400)) <= width


def test_where_there_is_no_terminal_each_action_is_written_whole() -> None:
    assert drawn(400).removeprefix("stage 0  ").split() == [f"F{number}" for number in range(400)]
