"""When the stages of a pipeline wait for what they have sent: by then it has been received, if all goes as planned."""

from __future__ import annotations

from bisect import bisect_right

from mpiparallel.pipeline.action import COMPUTATIONS, Kind
from mpiparallel.pipeline.schedule import Schedule
from mpiparallel.pipeline.timing import time_line

_ROUNDING = 1e-6


class EndsOfSends:
    """The planned times of the computations of a schedule."""

    def __init__(self, schedule: Schedule) -> None:
        self._begins: list[list[float]] = [[] for _ in schedule.actions]
        self._computations: list[list[tuple[float, int]]] = [[] for _ in schedule.actions]
        for one in time_line(schedule):
            begins = self._begins[one.stage]
            kind, _, chunk, _ = one.action
            # The first part of the network has no input gradient: nobody wants that of a batch.
            is_empty = kind is Kind.INPUT_GRADIENT and schedule.placement.parts[one.stage][chunk] == 0
            if kind in COMPUTATIONS and not is_empty:
                self._computations[one.stage].append((one.begin, len(begins)))
            begins.append(one.begin)

    def before(self, source: int, target: int, taking: int) -> int | None:
        """Return the action of stage ``source`` before which it waits until ``target`` has what it sent.

        It is the first computation that begins later than ``taking``, the action of the target that uses it. So a
        target that is late by one computation stops nobody. All of it is in the order of the planned times, so nobody
        waits for ever. None stands for the end of the step.
        """
        computations = self._computations[source]
        place = bisect_right(computations, self._begins[target][taking] + _ROUNDING, key=lambda one: one[0])
        return computations[place][1] if place < len(computations) else None
