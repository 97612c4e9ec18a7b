"""What is drawn under one title: the time lines of all stages, planned or measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpiparallel.pipeline.costs import Costs
from mpiparallel.pipeline.report import check
from mpiparallel.pipeline.schedule import Schedule
from mpiparallel.pipeline.timing import TimedAction, time_line


@dataclass(frozen=True)
class Panel:
    """When each action of each stage began and ended, with a title, and a note beside it.

    Measured times are drawn like planned ones; give both in one unit, from the beginning of the step.

    Parameters
    ----------
    title, note : str
        Beside the picture.
    actions : sequence of TimedAction
        With their times.

    Examples
    --------
    >>> from mpiparallel.pipeline import make_schedule
    >>> Panel.planned("GPipe", make_schedule("gpipe", stages=2, micro_batches=2)).title
    'GPipe'
    """

    title: str
    note: str
    actions: Sequence[TimedAction]

    @classmethod
    def planned(cls, title: str, schedule: Schedule, costs: Costs | None = None) -> Panel:
        """Return the time lines of a schedule as `time_line` tells them. Raises ScheduleError as `check` does."""
        report = check(schedule, costs)
        note = (
            f"step {report.step:g}, of which bubble {report.bubble:g}; a stage holds activations of "
            f"{max(report.peaks):g} micro-batches at most"
        )
        return cls(title, note, time_line(schedule, costs))

    @property
    def stages(self) -> int:
        """Number of stages."""
        return 1 + max((timed.stage for timed in self.actions), default=-1)

    @property
    def end(self) -> float:
        """When the last action ends."""
        return max((timed.end for timed in self.actions), default=0.0)
