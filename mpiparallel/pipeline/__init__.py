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
    "action": ("Action", "Kind"),
    "costs": ("Costs",),
    "panel": ("Panel",),
    "parsing": ("parse", "read_schedule"),
    "placement": ("Placement",),
    "registry": ("SCHEDULES", "make_schedule", "schedule_name"),
    "report": ("Report", "check"),
    "schedule": ("Schedule",),
    "svg_drawing": ("picture",),
    "text_drawing": ("drawn_text",),
    "timing": ("TimedAction", "time_line"),
}


def __getattr__(name: str) -> Any:
    # A rank needs a schedule alone, so what checks and draws it is loaded when it is asked for.
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
