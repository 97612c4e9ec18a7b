"""What each stage of a pipeline does, and when: schedules as values, checked and drawn before anything runs."""

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
