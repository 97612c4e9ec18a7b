"""When the stages of a network do what, by the cost model: as one drawing for the page and for the terminal."""

from __future__ import annotations

from typing import Final

from mpiparallel.launch.job.terminal_text import printable, terminal_width
from mpiparallel.launch.plan.report import duration
from mpiparallel.pipeline.panel import Panel
from mpiparallel.pipeline.registry import SCHEDULES
from mpiparallel.pipeline.text_drawing import drawn_text
from mpiparallel.search.forecast.forecast import Forecast

_MILLI: Final = 1e3


def stages_panel(forecast: Forecast) -> Panel | None:
    """Return the time lines of the stages, in milliseconds; None where there is one stage."""
    if len(forecast.stages) < 2:
        return None
    note = (
        f"a step of {duration(forecast.seconds)}, of which a stage is idle {forecast.bubble * 100:.0f} %; "
        "milliseconds by the cost model"
    )
    actions = [
        timed._replace(begin=timed.begin * _MILLI, end=timed.end * _MILLI)
        for stage in forecast.stages
        for timed in stage.time.actions
    ]
    family = SCHEDULES.get(forecast.schedule)
    return Panel(family.title if family else printable(forecast.schedule), note, actions)


def stages_text(forecast: Forecast) -> str:
    """Return the time lines of the stages for the terminal; nothing where there is one stage."""
    panel = stages_panel(forecast)
    return "" if panel is None else drawn_text(panel, terminal_width())
