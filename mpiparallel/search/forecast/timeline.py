"""When the stages of a pipeline do what: each runs its nodes in order, and waits for what others send."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpiparallel.parallel.border import Arrive, Send
from mpiparallel.search.cost.timed_nodes import TimedNode
from mpiparallel.search.forecast.move import message_seconds
from mpiparallel.search.machine.machine import Machine


@dataclass(frozen=True)
class StageTime:
    """The seconds of a stage in a step: at work, and waiting for other stages before it ends."""

    busy: float
    waiting: float

    @property
    def end(self) -> float:
        """When it has done all."""
        return self.busy + self.waiting


def stage_times(stages: Sequence[Sequence[TimedNode]], machine: Machine) -> tuple[StageTime, ...]:
    """Return the times of the stages, each by what its first rank runs.

    Raises ValueError where they wait for each other, which no checked schedule does.
    """
    clocks, busy = [0.0] * len(stages), [0.0] * len(stages)
    places, sent = [0] * len(stages), dict[int, float]()
    left = set(range(len(stages)))
    while left:
        before = list(places)
        for stage in sorted(left):
            for one in stages[stage][places[stage] :]:
                operator = one.node.operator
                if isinstance(operator, Arrive):
                    if operator.border.tag not in sent:
                        break
                    clocks[stage] = max(clocks[stage], sent[operator.border.tag])
                clocks[stage] += one.seconds
                busy[stage] += one.seconds
                places[stage] += 1
                if isinstance(operator, Send):
                    size = operator.border.target.largest_size * one.node.inputs[0].spec.dtype.itemsize
                    sent[operator.border.tag] = clocks[stage] + message_seconds(machine, operator.border, size)
            else:
                left.discard(stage)
        if left and places == before:
            raise ValueError(f"stages {sorted(left)} wait for each other")
    return tuple(StageTime(work, clock - work) for work, clock in zip(busy, clocks, strict=True))


def bubble(times: Sequence[StageTime]) -> float:
    """Return which part of a step the stages are idle, 0 where there is one.

    >>> bubble([StageTime(3.0, 1.0), StageTime(3.0, 0.0)])
    0.25
    """
    end = max((one.end for one in times), default=0.0)
    return 1 - sum(one.busy for one in times) / (len(times) * end) if end else 0.0
