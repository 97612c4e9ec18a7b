"""What each stage of a pipeline does, and when: schedules as values, checked and drawn before anything runs."""

from mpiparallel.parallel.pipeline.action import Action, Kind
from mpiparallel.parallel.pipeline.costs import Costs
from mpiparallel.parallel.pipeline.panel import Panel
from mpiparallel.parallel.pipeline.parsing import parse, read_schedule
from mpiparallel.parallel.pipeline.placement import Placement
from mpiparallel.parallel.pipeline.registry import SCHEDULES, make_schedule, schedule_name
from mpiparallel.parallel.pipeline.report import Report, check
from mpiparallel.parallel.pipeline.schedule import Schedule
from mpiparallel.parallel.pipeline.svg_drawing import picture
from mpiparallel.parallel.pipeline.text_drawing import drawn_text
from mpiparallel.parallel.pipeline.timing import TimedAction, time_line

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
