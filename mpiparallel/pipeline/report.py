"""What a schedule is worth, said before anything runs."""

from __future__ import annotations

from dataclasses import dataclass

from mpiparallel.pipeline.blocking import stuck_if_blocking
from mpiparallel.pipeline.costs import Costs
from mpiparallel.pipeline.rules import check_lists, held_activations, held_with_gradients
from mpiparallel.pipeline.schedule import Schedule
from mpiparallel.pipeline.timing import end_times


@dataclass(frozen=True)
class Report:
    """What a schedule costs.

    Parameters
    ----------
    step : float
        How long it takes where all stages begin together.
    bubble : float
        What it takes beyond the work of the busiest stage.
    idle : tuple of float
        How long each stage does nothing.
    peaks : tuple of float
        The most activations that each stage holds at once, where 1 is those of one micro-batch through all its chunks.
    with_gradients : tuple of float
        The most activations, and gradients that wait for a weight gradient, where these are as large as those: so it is
        in layers of products. Where a layer lets go of most of its activations before, as one with attention does, it
        is less.
    messages : int
        Those between stages.
    stuck_if_blocking : str
        Who would wait for ever if sends blocked; with tagged non-blocking ones none does.

    Examples
    --------
    >>> from mpiparallel.pipeline import check, make_schedule
    >>> check(make_schedule("gpipe", stages=2, micro_batches=2)).bubble
    2.0
    """

    step: float
    bubble: float
    idle: tuple[float, ...]
    peaks: tuple[float, ...]
    with_gradients: tuple[float, ...]
    messages: int
    stuck_if_blocking: str

    def __str__(self) -> str:
        share = self.bubble / self.step if self.step else 0.0
        peaks, most = (" ".join(f"{peak:g}" for peak in each) for each in (self.peaks, self.with_gradients))
        return "\n".join(
            [
                f"step {self.step:g}, bubble {self.bubble:g} ({share:.0%} of the step)",
                f"activations held by each stage, at most: {peaks} micro-batches",
                f"of layers of products, with the gradients that wait for a weight gradient: {most}",
                f"{self.messages} messages between stages",
                f"if sends blocked: {self.stuck_if_blocking or 'it would end, too'}",
            ]
        )


def check(schedule: Schedule, costs: Costs | None = None) -> Report:
    """Return what a schedule costs, if it can run.

    It must be complete, each action after those that it needs, and no stage may wait for ever with tagged non-blocking
    messages.

    Parameters
    ----------
    schedule : Schedule
        What is checked.
    costs : Costs, optional
        By default 1 for forward, input gradient and weight gradient each, and 0 for messages.

    Returns
    -------
    Report
        In the unit of ``costs``.

    Raises
    ------
    ScheduleError
        With stage, action and rule, for a schedule that must not run.

    Examples
    --------
    >>> from mpiparallel.pipeline import make_schedule
    >>> check(make_schedule("zb_h1", stages=4, micro_batches=8)).bubble
    3.0
    """
    check_lists(schedule)
    costs = costs or Costs.even(schedule.stages)
    ends = end_times(schedule, costs)
    step = max(times[-1] for times in ends)
    work = [schedule.micro_batches * time for time in costs.work]
    return Report(
        step=step,
        bubble=step - max(work),
        idle=tuple(step - own for own in work),
        peaks=tuple(held_activations(schedule, stage) for stage in range(schedule.stages)),
        with_gradients=tuple(held_with_gradients(schedule, stage) for stage in range(schedule.stages)),
        messages=sum(action.peer is not None for actions in schedule.actions for action in actions) // 2,
        stuck_if_blocking=stuck_if_blocking(schedule),
    )
