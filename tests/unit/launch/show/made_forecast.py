"""A forecast that is put together by hand: two stages of two ranks, of which the second works all the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mpiparallel.pipeline.action import Action, Kind
from mpiparallel.pipeline.timing import TimedAction
from mpiparallel.search.forecast.forecast import Forecast, StageForecast
from mpiparallel.search.forecast.memory import MemoryForecast
from mpiparallel.search.forecast.move import Collectives, Move, ToldGroup
from mpiparallel.search.forecast.operators import OperatorForecast
from mpiparallel.search.forecast.parameters import Held, ParameterForecast
from mpiparallel.search.forecast.timeline import StageTime
from mpiparallel.search.machine.machine import Machine

GIGA = 10**9
GROUP = ToldGroup(2, 1, "0, 1")
PARTS = {
    "matrix products": 2.4,
    "other operators": 0.6,
    "communication within hosts": 0.75,
    "communication between hosts": 0.25,
}


def operator(stage: int, name: str, *sources: str) -> OperatorForecast:
    return OperatorForecast(name, "MatMul", stage, ("w",), ((2, 1),), "8/2 x 6", "by hand", 0.5, 0.25, 64, sources)


def move(owner: str, phase: str = "forward") -> Move:
    return Move(owner, "w", phase, "AllReduce", GROUP, 1000, 0.5)


def parameter(stage: int, name: str, count: int) -> ParameterForecast:
    parts = tuple(Held(f"[{number}:{number + 1}]", str(number)) for number in range(count))
    return ParameterForecast(name, stage, (8, 6), "float32", True, "8/2 x 6", "8 x 6", 96, count, parts)


def stage(number: int, operators: Sequence[OperatorForecast] = (), **changes: Any) -> StageForecast:
    """Return a stage that is idle for two seconds if it is the first, and else works for all four."""
    action = Action(Kind.FORWARD, 0)
    first = StageTime(2.0, 2.0, 0.0, (TimedAction(0, action, 0.0, 2.0),))
    second = StageTime(4.0, 0.0, 0.5, (TimedAction(1, action, 2.0, 4.0),))
    memory = MemoryForecast({"weights": (1 + number) * GIGA, "inputs": GIGA}, GIGA, "Loss")
    collectives = (Collectives("AllReduce", GROUP, {"forward": 2}, 2, 2000, 1.0),)
    made = StageForecast(
        ranks=f"{2 * number} to {2 * number + 1}",
        rank_count=2,
        time=second if number else first,
        parts=PARTS,
        recomputing=0.0,
        memory=memory,
        collectives=collectives,
        moves=(),
        operators=tuple(operators),
        parameters=(),
    )
    return replace(made, **changes)


def forecast(*stages: StageForecast, **changes: Any) -> Forecast:
    """Return a step of these stages, or of two without operators, on hosts of two ranks with 4 GB each."""
    found = stages or (stage(0), stage(1))
    machine = Machine(hosts=2, ranks_per_host=2, memory=4.0 * GIGA)
    made = Forecast(2 * len(found), machine, "semi_auto_parallel", True, 64, "gpipe", found)
    return replace(made, **changes)
