"""When each action of a schedule begins and ends, with messages that block nobody."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from mpiparallel.errors import ScheduleError
from mpiparallel.pipeline.action import Action, Kind
from mpiparallel.pipeline.costs import Costs
from mpiparallel.pipeline.schedule import Schedule

_Moments = list[float | None]
"""When something happened, by micro-batch; None for not yet."""
_DIRECTIONS: Final = {Kind.FORWARD: -1, Kind.INPUT_GRADIENT: 1}
"""The computations that may need a message, and on which side of their part it comes from."""


class TimedAction(NamedTuple):
    """An action of a stage with when it began and ended, planned or measured.

    Parameters
    ----------
    stage : int
        Who does it.
    action : Action
        What is done.
    begin, end : float
        In one unit, from the beginning of the step.

    Examples
    --------
    >>> from mpiparallel.pipeline import make_schedule
    >>> print(time_line(make_schedule("gpipe", stages=1, micro_batches=1))[0].action)
    F0
    """

    stage: int
    action: Action
    begin: float
    end: float


def time_line(schedule: Schedule, costs: Costs | None = None) -> list[TimedAction]:
    """Return when each action begins and ends, stage after stage; the step begins at 0.

    Sends and receives only start a message, which takes its time from when both have been started; what needs it waits.

    Parameters
    ----------
    schedule : Schedule
        It must have passed `check`.
    costs : Costs, optional
        By default 1 for forward, input gradient and weight gradient each, and 0 for messages.

    Returns
    -------
    list of TimedAction
        In the unit of ``costs``.

    Raises
    ------
    ScheduleError
        Where stages wait for each other for ever.

    Examples
    --------
    >>> from mpiparallel.pipeline import make_schedule
    >>> time_line(make_schedule("gpipe", stages=1, micro_batches=1))[0].end
    1.0
    """
    return list(_actions(schedule, costs or Costs.even(schedule.stages)))


def _actions(schedule: Schedule, costs: Costs) -> Iterator[TimedAction]:
    for stage, ends in enumerate(end_times(schedule, costs)):
        shares = _shares(schedule, costs, stage)
        for action, end in zip(schedule.actions[stage], ends, strict=True):
            yield TimedAction(stage, action, end - shares.get(action.kind, 0.0), end)


def end_times(schedule: Schedule, costs: Costs) -> list[list[float]]:
    """Return when each action of each stage ends; see `time_line`."""
    if len(costs.forward) != schedule.stages:
        raise ScheduleError(
            f'schedule "{schedule.name}": the costs are of {len(costs.forward)} stages, and it has {schedule.stages}; '
            "give each stage one"
        )
    play = _Play(schedule, costs)
    going = list(range(schedule.stages))
    while going:
        going += play.advance(going.pop())
    play.check_ended()
    return play.ends


def _shares(schedule: Schedule, costs: Costs, stage: int) -> dict[Kind, float]:
    chunks = len(schedule.placement.parts[stage])
    return {
        Kind.FORWARD: costs.forward[stage] / chunks,
        Kind.INPUT_GRADIENT: costs.input_gradient[stage] / chunks,
        Kind.WEIGHT_GRADIENT: costs.weight_gradient[stage] / chunks,
    }


class _Play:
    """The stages, each as far as it gets until it waits for a message that has not been sent.

    A message is known by the part that takes it. ``posted`` is when its receive was started, ``sent`` when its send.
    """

    def __init__(self, schedule: Schedule, costs: Costs) -> None:
        self.schedule = schedule
        self.costs = costs
        self.ends: list[list[float]] = [[] for _ in schedule.actions]
        self.awaited: list[tuple[_Moments, int] | None] = [None] * schedule.stages
        parts = range(len(schedule.placement.stages))
        empty: _Moments = [None] * schedule.micro_batches
        self.posted = {kind: [empty[:] for _ in parts] for kind in _DIRECTIONS}
        self.sent = {kind: [empty[:] for _ in parts] for kind in _DIRECTIONS}
        stages = range(schedule.stages)
        self.shares = [_shares(schedule, costs, stage) for stage in stages]
        self.inputs = [self._inputs(stage) for stage in stages]
        self.moments = [self._moments(stage) for stage in stages]

    def advance(self, stage: int) -> list[int]:
        """Let a stage go on as far as it can; return those that waited for what it has sent."""
        shares, inputs, moments = self.shares[stage], self.inputs[stage], self.moments[stage]
        ends, awaited, woken = self.ends[stage], self.awaited, []
        clock = ends[-1] if ends else 0.0
        last_to_wait = Kind.INPUT_GRADIENT
        for kind, micro_batch, chunk, peer in islice(self.schedule.actions[stage], len(ends), None):
            if kind <= last_to_wait:
                posted, sent, delay = inputs[kind][chunk]
                start = posted[micro_batch]
                if start is not None:
                    leave = sent[micro_batch]
                    if leave is None:
                        awaited[stage] = sent, micro_batch
                        break
                    arrival = (start if start > leave else leave) + delay
                    if arrival > clock:
                        clock = arrival
                clock += shares[kind]
            elif peer is not None:
                row = moments[kind][chunk]
                row[micro_batch] = clock
                waits = awaited[peer]
                if waits is not None and waits[0] is row and waits[1] == micro_batch:
                    awaited[peer] = None
                    woken.append(peer)
            elif kind is Kind.WEIGHT_GRADIENT:
                clock += shares[kind]
            ends.append(clock)
        return woken

    def _inputs(self, stage: int) -> dict[Kind, list[tuple[_Moments, _Moments, float]]]:
        """Return for each kind that needs messages, by chunk: when they were posted, sent, and how long they take."""
        stages, found = self.schedule.placement.stages, {}
        for kind, step in _DIRECTIONS.items():
            sources = [(part + step) % len(stages) for part in self.schedule.placement.parts[stage]]
            found[kind] = [
                (self.posted[kind][part], self.sent[kind][part], self.costs.message[stages[source]])
                for part, source in zip(self.schedule.placement.parts[stage], sources, strict=True)
            ]
        return found

    def _moments(self, stage: int) -> dict[Kind, list[_Moments]]:
        """Return for each kind of message, by chunk, where its moment is kept."""
        held, last = self.schedule.placement.parts[stage], len(self.schedule.placement.stages) - 1
        return {
            Kind.SEND_ACTIVATIONS: [self.sent[Kind.FORWARD][min(part + 1, last)] for part in held],
            Kind.SEND_GRADIENTS: [self.sent[Kind.INPUT_GRADIENT][max(part - 1, 0)] for part in held],
            Kind.RECEIVE_ACTIVATIONS: [self.posted[Kind.FORWARD][part] for part in held],
            Kind.RECEIVE_GRADIENTS: [self.posted[Kind.INPUT_GRADIENT][part] for part in held],
        }

    def check_ended(self) -> None:
        """Raise ScheduleError unless all stages have come to the end of their lists."""
        waiting = [
            f"stage {stage} waits with {actions[len(ends)]}"
            for stage, (ends, actions) in enumerate(zip(self.ends, self.schedule.actions, strict=True))
            if len(ends) < len(actions)
        ]
        if waiting:
            raise ScheduleError(
                f'schedule "{self.schedule.name}": rule "no deadlock": {", ".join(waiting)}, each for a message that '
                "another of them sends only later; put the sends, and what they need, before what waits for them"
            )
