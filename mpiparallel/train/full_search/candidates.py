"""What may be chosen between: all plans that a network and its user leave open, without strategies or recomputation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ConfigurationError
from mpiparallel.nn.wrap.pipeline_cell import PipelineCell
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.pipeline.registry import SCHEDULES
from mpiparallel.pipeline.schedule import Schedule
from mpiparallel.train.full_search.training_plan import Plan

_MOST_A_STAGE: Final = 8
"""Micro-batches for each stage: more make the bubble no smaller than operators get slower."""


_MOST_ACTIONS: Final = 1 << 12
"""Micro-batches times stages: each crosses the borders of stages with a message of its own."""


@dataclass(frozen=True)
class Openness:
    """What is open: how many layers may be in stages, whether micro-batches and stages are to be found, and rows."""

    rows: int
    layers: int = 0
    micro_size: int = 1
    finds_size: bool = False
    finds_stages: bool = False

    @classmethod
    def of(cls, cell: PipelineCell | None, rows: int) -> Openness:
        """Return what a network leaves open; without micro-batches only shards and strategies."""
        if cell is None:
            return cls(rows)
        return cls(rows, len(cell.layers), cell.micro_size, cell.finds_size, cell.cuts_itself)


def candidates(configuration: ParallelConfiguration, openness: Openness) -> tuple[Plan, ...]:
    """Return all plans that are left open, the plainest first; what the user has set stays in all of them.

    Raises ConfigurationError where none is left, as for layers that are fewer than stages.
    """
    found = tuple(_plans(configuration, openness))
    if not found:
        raise ConfigurationError(
            f"auto_parallel_search_mode 'everything': nothing is left to choose for {configuration.device_num} ranks, "
            f"{openness.layers} layers and a batch of {openness.rows} rows; set less by hand"
        )
    return found


def _plans(configuration: ParallelConfiguration, openness: Openness) -> Iterator[Plan]:
    devices = configuration.device_num
    for stages in _stages(configuration, openness):
        shards = (True,) if configuration.enable_parallel_optimizer else (False, True)
        for count in _micro_batches(stages, openness):
            for schedule in _schedules(configuration, stages, count, openness):
                for cut in shards if devices > stages else shards[:1]:
                    yield Plan(devices, stages, count, schedule, (), cut)


def _stages(configuration: ParallelConfiguration, openness: Openness) -> Iterator[int]:
    if configuration.pipeline_stages > 1 or not openness.finds_stages:
        yield configuration.pipeline_stages
        return
    for stages in range(1, min(configuration.device_num, openness.layers) + 1):
        if configuration.device_num % stages == 0:
            yield stages


def _micro_batches(stages: int, openness: Openness) -> Iterator[int]:
    if not openness.finds_size:
        yield openness.micro_size
        return
    most = 1 if stages == 1 else min(_MOST_A_STAGE * stages, _MOST_ACTIONS // stages)
    for count in range(stages, most + 1, stages):
        if openness.rows % count == 0:
            yield count


def _schedules(configuration: ParallelConfiguration, stages: int, count: int, openness: Openness) -> Iterator[str]:
    asked = configuration.pipeline_schedule
    if stages == 1:
        yield ""
    elif asked:
        yield asked.name if isinstance(asked, Schedule) else asked
    else:
        for name, family in SCHEDULES.items():
            enough = openness.layers >= (family.chunks or 2) * stages or not openness.finds_stages
            if enough and not family.refusal(stages, count):
                yield name
