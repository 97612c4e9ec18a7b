"""When the stages of a pipeline do what: each runs its nodes in order, and waits for what others send."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.dataclass import dataclass
from mpiparallel.parallel.border import Arrive, Send
from mpiparallel.parallel.overlap import Start
from mpiparallel.pipeline.action import Action
from mpiparallel.pipeline.timing import TimedAction
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.cost.timed_nodes import TimedNode, timed_nodes
from mpiparallel.search.forecast.move import message_seconds
from mpiparallel.search.machine.machine import Machine


@dataclass(frozen=True)
class StageTime:
    """The seconds of a stage in a step: at work, and waiting for other stages before it ends.

    ``hidden`` are those of communication beside which it works. ``actions`` are what it does when, in seconds from the
    beginning of the step, without messages. One that has to wait on its way comes in pieces.
    """

    busy: float
    waiting: float
    hidden: float = 0.0
    actions: tuple[TimedAction, ...] = ()

    @property
    def end(self) -> float:
        """When it has done all."""
        return self.busy + self.waiting


@dataclass
class _Clock:
    """Where a stage is in its step: ``now``, how long it was at work, and when what is under way ends.

    What is started later is carried out later: the links are the same.
    """

    stage: int
    now: float = 0.0
    busy: float = 0.0
    free: float = 0.0
    under_way: float = 0.0
    exposed: float = 0.0
    ends: dict[Start, float] = field(default_factory=dict)
    actions: list[TimedAction] = field(default_factory=list)

    def wait(self, until: float) -> None:
        self.now = max(self.now, until)

    def work(self, one: TimedNode) -> None:
        """Do a node, or begin or end a collective."""
        if one.begins is not None:
            self.free = max(self.now, self.free) + one.seconds
            self.ends[one.begins] = self.free
            self.under_way += one.seconds
            return
        seconds = one.seconds
        if one.ends is not None:
            seconds = max(0.0, self.ends.pop(one.ends, self.now) - self.now)
            self.exposed += seconds
        began = self.now
        self.now += seconds
        self.busy += seconds
        action = one.node.notes.action
        if action is not None and action.peer is None:
            self._act(action, began)

    def _act(self, action: Action, began: float) -> None:
        last = self.actions[-1] if self.actions else None
        if last is not None and last.action == action and last.end == began:
            self.actions[-1] = last._replace(end=self.now)
        elif self.now > began:
            self.actions.append(TimedAction(self.stage, action, began, self.now))

    @property
    def time(self) -> StageTime:
        hidden = max(0.0, self.under_way - self.exposed)
        return StageTime(self.busy, self.now - self.busy, hidden, tuple(self.actions))


def stage_times(stages: Sequence[Sequence[TimedNode]], machine: Machine) -> tuple[StageTime, ...]:
    """Return the times of the stages, each by what its first rank runs.

    Raises ValueError where they wait for each other, which no checked schedule does.
    """
    clocks = [_Clock(stage) for stage in range(len(stages))]
    places, sent = [0] * len(stages), dict[int, float]()
    left = set(range(len(stages)))
    while left:
        before = list(places)
        for stage in sorted(left):
            clock = clocks[stage]
            for one in stages[stage][places[stage] :]:
                operator = one.node.operator
                if isinstance(operator, Arrive):
                    if operator.border.tag not in sent:
                        break
                    clock.wait(sent[operator.border.tag])
                clock.work(one)
                places[stage] += 1
                if isinstance(operator, Send):
                    size = operator.border.target.largest_size * one.node.inputs[0].spec.dtype.itemsize
                    sent[operator.border.tag] = clock.now + message_seconds(machine, operator.border, size)
            else:
                left.discard(stage)
        if left and places == before:
            raise ValueError(f"stages {sorted(left)} wait for each other")
    return tuple(clock.time for clock in clocks)


def counted_seconds(staged: StagedGraph, prices: Prices) -> float:
    """Return when the last stage has done all, as searches count it: each operator and each collective by itself.

    A forecast is lower, because it knows which operators become one kernel and which collectives one message.
    """
    return max(one.end for one in stage_times([timed_nodes(stage, prices) for stage in staged.stages], prices.machine))


def bubble(times: Sequence[StageTime]) -> float:
    """Return which part of a step the stages are idle, 0 where there is one.

    >>> bubble([StageTime(3.0, 1.0), StageTime(3.0, 0.0)])
    0.25
    """
    end = max((one.end for one in times), default=0.0)
    return 1 - sum(one.busy for one in times) / (len(times) * end) if end else 0.0
