"""A forecast as values of JSON: sizes in bytes, times in seconds."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from typing import Any

from mpiparallel.search.forecast.forecast import Forecast, StageForecast


def document(forecast: Forecast) -> dict[str, Any]:
    """Return all of a forecast; what is summed up of its stages stands first."""
    bound, part = forecast.bound
    finite = isfinite(forecast.machine.memory)
    return {
        "ranks": forecast.ranks,
        "hosts": forecast.hosts,
        "ranks_per_host": forecast.machine.ranks_per_host,
        "mode": forecast.mode,
        "trains": forecast.trains,
        "samples": forecast.samples,
        "seconds": forecast.seconds,
        "bound": {"by": bound, "part": part},
        "memory": forecast.fullest.memory.total,
        "memory_limit": forecast.machine.memory if finite else None,
        "missing_memory": forecast.missing_memory if finite else 0,
        "schedule": forecast.schedule or None,
        "bubble": forecast.bubble,
        "stages": [_stage(stage) for stage in forecast.stages],
    }


def _stage(stage: StageForecast) -> dict[str, Any]:
    """Return a stage; ``actions`` are what it does, and when that begins and ends."""
    found = asdict(stage)
    found["time"]["actions"] = [(str(one.action), one.begin, one.end) for one in stage.time.actions]
    return found
