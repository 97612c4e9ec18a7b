"""What a plan may take, by the profile of one micro-batch, and which layers it should recompute to fit into memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from math import inf
from typing import Final, NamedTuple

import numpy as np

from mpiparallel.pipeline.costs import Costs
from mpiparallel.pipeline.partition import partition
from mpiparallel.pipeline.registry import make_schedule
from mpiparallel.pipeline.report import check
from mpiparallel.pipeline.schedule import Schedule
from mpiparallel.train.full_search.profile import Array, LayerProfile
from mpiparallel.train.full_search.training_plan import Plan

_SCHEDULES_KEPT: Final = 64


class QuickEstimate(NamedTuple):
    """What a plan may take: seconds of a step, bytes of a rank."""

    seconds: float
    bytes: float


@lru_cache(_SCHEDULES_KEPT)
def _schedule(name: str, stages: int, count: int) -> tuple[Schedule, tuple[float, ...]]:
    """Return a schedule, and how many micro-batches each stage holds at most."""
    schedule = make_schedule(name, stages, count)
    return schedule, check(schedule).peaks


class QuickEstimator:
    """What makes quick estimates of plans.

    ``free`` are the layers that may be recomputed, ``places`` the stages that the user has set. Without ``places``
    layers are taken to be put into stages as evenly as their seconds allow.
    """

    def __init__(self, free: Collection[int], places: Sequence[int] | None = None) -> None:
        self._free, self._places = frozenset(free), places
        self._cuts: dict[tuple[int, ...], list[int]] = {}

    def estimate(self, plan: Plan, profile: LayerProfile) -> QuickEstimate:
        """Return what a plan may take, with the layers recomputed that it says."""
        again = np.zeros(profile.forward.size)
        again[list(plan.recomputes)] = profile.forward[list(plan.recomputes)]
        if plan.stages == 1:
            each = profile.forward.sum() + profile.backward.sum() + again.sum()
            seconds = plan.micro_batches * each + profile.step.sum()
            return QuickEstimate(float(seconds), self._needed(plan, profile, 0, [*range(again.size)], plan.recomputes))
        homes = self._homes(plan, profile)
        schedule, _ = _schedule(plan.schedule, plan.stages, plan.micro_batches)
        of_stages = [homes == stage for stage in range(plan.stages)]
        forward, backward, once = (
            [float(of[layers].sum()) for layers in of_stages]
            for of in (profile.forward, profile.backward / 2, profile.step)
        )
        recomputing = [float(again[layers].sum()) for layers in of_stages]
        inputs = [half + extra for half, extra in zip(backward, recomputing, strict=True)]
        costs = Costs(tuple(forward), tuple(inputs), tuple(backward), (0.0,) * plan.stages)
        seconds = check(schedule, costs).step + max(once)
        return QuickEstimate(seconds, max(self._of_stages(plan, profile, homes, plan.recomputes)))

    def recomputed(self, plan: Plan, profile: LayerProfile, limit: float) -> tuple[int, ...]:
        """Return the layers to recompute so that each stage fits into ``limit`` bytes, the fewest seconds of them.

        Where not all fit it is all that may be.
        """
        if limit == inf or not self._free:
            return ()
        homes = np.zeros(profile.forward.size, int) if plan.stages == 1 else self._homes(plan, profile)
        saved = profile.kept - profile.bordering
        order = sorted(self._free, key=lambda one: (-saved[one] / max(profile.forward[one], 1e-12), one))
        found: list[int] = []
        for stage in range(plan.stages):
            own = [*np.flatnonzero(homes == stage)]
            left = [one for one in order if homes[one] == stage and saved[one] > 0]
            chosen: list[int] = []
            while left and self._needed(plan, profile, stage, own, chosen) > limit:
                chosen.append(left.pop(0))
            found += chosen
        return tuple(sorted(found))

    def _of_stages(self, plan: Plan, profile: LayerProfile, homes: Array, again: Collection[int]) -> list[float]:
        return [
            self._needed(plan, profile, stage, [*np.flatnonzero(homes == stage)], again) for stage in range(plan.stages)
        ]

    def _needed(
        self, plan: Plan, profile: LayerProfile, stage: int, own: Sequence[int], again: Collection[int]
    ) -> float:
        """Return the bytes of a rank of a stage that has its ``own`` layers, some of which are computed again."""
        recomputed = sorted(set(again) & set(own))
        kept = profile.kept[own].sum() - (profile.kept - profile.bordering)[recomputed].sum()
        at_a_time = profile.kept[own].max() if len(own) else 0.0
        held = profile.held[own].sum() + (1 if plan.stages == 1 else 2) * profile.trained[own].sum()
        peak = float(plan.micro_batches)
        if plan.stages > 1:
            peak = _schedule(plan.schedule, plan.stages, plan.micro_batches)[1][stage]
        return float(held + peak * kept + at_a_time)

    def _homes(self, plan: Plan, profile: LayerProfile) -> Array:
        """Return the stage of each layer; what is in none counts with the last."""
        schedule, _ = _schedule(plan.schedule, plan.stages, plan.micro_batches)
        if self._places is not None:
            return np.array([*self._places, plan.stages - 1])
        stages = schedule.placement.stages
        if stages not in self._cuts:
            self._cuts[stages] = partition(list(profile.forward[:-1] + profile.backward[:-1]), [1] * len(stages))
        ends = self._cuts[stages]
        homes = [stage for stage, first, end in zip(stages, [0, *ends], ends, strict=False) for _ in range(first, end)]
        return np.array([*homes, stages[-1]])
