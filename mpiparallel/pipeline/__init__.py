"""What each stage of a pipeline does, and when: schedules as values, checked and drawn before anything runs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mpiparallel.pipeline.action import Action, Kind
    from mpiparallel.pipeline.costs import Costs
    from mpiparallel.pipeline.panel import Panel
    from mpiparallel.pipeline.parsing import parse, read_schedule
    from mpiparallel.pipeline.placement import Placement
    from mpiparallel.pipeline.registry import SCHEDULES, make_schedule, schedule_name
    from mpiparallel.pipeline.report import Report, check
    from mpiparallel.pipeline.schedule import Schedule
    from mpiparallel.pipeline.svg_drawing import picture
    from mpiparallel.pipeline.text_drawing import drawn_text
    from mpiparallel.pipeline.timing import TimedAction, time_line

__all__ = [
    "SCHEDULES",
    "Action",
    "Costs",
    "Kind",
    "Panel",
    "Placement",
    "Report",
    "Schedule",
    "TimedAction",
    "check",
    "drawn_text",
    "make_schedule",
    "parse",
    "picture",
    "read_schedule",
    "schedule_name",
    "time_line",
]

_HOMES: Final = {
    "SCHEDULES": "registry",
    "Action": "action",
    "Costs": "costs",
    "Kind": "action",
    "Panel": "panel",
    "Placement": "placement",
    "Report": "report",
    "Schedule": "schedule",
    "TimedAction": "timing",
    "check": "report",
    "drawn_text": "text_drawing",
    "make_schedule": "registry",
    "parse": "parsing",
    "picture": "svg_drawing",
    "read_schedule": "parsing",
    "schedule_name": "registry",
    "time_line": "timing",
}


def __getattr__(name: str) -> Any:
    # A rank needs a schedule alone, so what checks and draws it is loaded when it is asked for.
    if name in _HOMES:
        return getattr(import_module(f"mpiparallel.pipeline.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
