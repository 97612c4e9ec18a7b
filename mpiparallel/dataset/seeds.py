"""The seeds that a pipeline draws from."""

from __future__ import annotations

from typing import Any

from mpiparallel.dataset.map_stage import MapStage
from mpiparallel.dataset.random_key import RandomKey
from mpiparallel.dataset.source import RandomAccessStage


def seeds_of(stage: Any) -> tuple[int, ...]:
    """Return the seeds of the stages that draw, from the last stage to the source; a sampler of the user's has none."""
    found = []
    while stage is not None:
        key = stage.order.key if isinstance(stage, RandomAccessStage) else getattr(stage, "_key", None)
        if isinstance(key, RandomKey) and not (isinstance(stage, MapStage) and not stage.is_random):
            found.append(key.seed)
        stage = getattr(stage, "_parent", None)
    return tuple(found)
