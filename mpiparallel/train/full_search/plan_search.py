"""The quickest of many plans that fits into memory: those with the best quick estimates are tried exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Final

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ConfigurationError
from mpiparallel.search.problem.clock import Clock
from mpiparallel.train.full_search.quick_estimate import QuickEstimate
from mpiparallel.train.full_search.training_plan import Plan
from mpiparallel.train.full_search.trials import BATCH, BEST, HELD, QUICK, PricedPlan, Trials

_TRIED: Final = 6
"""How many plans with stages that fit are tried exactly, those first with the best quick estimates."""
_MOST_TRIED: Final = 24
_MOST_NODES: Final = 400_000
"""Graphs of so many nodes in all are laid out for plans with stages: some seconds for a hundred thousand."""
_OPTIMISM: Final = 0.8
"""An estimate may be as much too long: a plan that is estimated slower than the best takes is not tried."""
_ROUNDS: Final = 4
"""How often what a plan recomputes is chosen anew, by how many bytes more or less it took than was estimated."""


@dataclass(frozen=True)
class Best:
    """The plan that was found, how many were tried, and seconds that no plan goes below."""

    tried: PricedPlan
    count: int
    bound: float


def best_of(trials: Trials, plans: Sequence[Plan], limit: float, clock: Clock) -> Best:
    """Return the quickest plan that is found within ``limit`` bytes of a rank.

    Without stages the best strategies there are count, with shards and without, and the batch; with stages the plans
    with the best estimates. What does not fit has so many layers recomputed that it does.

    Raises ConfigurationError where nothing fits: it says what comes closest, and by how much.
    """
    finding = _Finding(trials, limit, clock)
    first = [plan for plan in plans if plan.stages == 1] or plans[:1]
    finding.try_eased(plans[0], QUICK)
    bounds = [max(finding.try_all_strategies(plan), trials.floor(plan.stages)) for plan in first]
    staged = [plan for plan in plans if plan not in first]
    bounds += [trials.floor(stages) for stages in {plan.stages for plan in staged}]
    finding.try_best_estimates(staged)
    best = finding.best
    if best is None:
        raise _nothing_fits(finding.tried, limit)
    if best.plan.stages > 1:
        finding.try_eased(replace(best.plan, recomputes=(), strategies={}), BEST)
    best = finding.best or best
    return Best(best, len(finding.tried), min(*bounds, best.seconds))


class _Finding:
    def __init__(self, trials: Trials, limit: float, clock: Clock) -> None:
        self._trials, self._limit, self._clock = trials, limit, clock
        self.tried: list[PricedPlan] = []

    @property
    def best(self) -> PricedPlan | None:
        """The quickest that fits, if anything does."""
        return min((one for one in self.tried if self._fits(one)), key=lambda one: one.seconds, default=None)

    def _fits(self, one: PricedPlan) -> bool:
        return one.bytes <= self._limit

    def try_eased(self, plan: Plan, mode: str) -> list[PricedPlan]:
        """Try a plan, with as many layers recomputed as it takes to fit; return what has been tried."""
        found: list[PricedPlan] = []
        over = 0.0
        for _ in range(_ROUNDS):
            now = self._trials.eased(plan, self._limit - over)
            if any(one.plan == now for one in found) or not (self._clock.has_time() or not self.tried):
                break
            one = self._trials.tried(now, mode)
            if one is None:
                break
            found.append(one)
            self.tried.append(one)
            if self._fits(one) and not now.recomputes:
                break
            over = one.bytes - self._trials.estimate(now).bytes
        return found

    def try_all_strategies(self, plan: Plan) -> float:
        """Try the best strategies of a plan without stages; return seconds that none go below."""
        if not self._clock.has_time():
            return 0.0
        found = self._trials.tried(plan, BEST)
        if found is None:
            return 0.0
        self.tried.append(found)
        if not self._fits(found):
            self.try_eased(plan, BEST)
            less = self._trials.tried(plan, BEST, self._limit) if self._clock.has_time() else None
            self.tried += [less] if less is not None else []
            if self._trials.with_scratch and self._clock.has_time():
                held = self._trials.tried(plan, HELD, self._limit)
                self.tried += [held] if held is not None else []
            # Data parallel and ZeRO as they are may fit though the estimates say no.
            plain = self._trials.tried(plan, BATCH) if self._clock.has_time() else None
            self.tried += [plain] if plain is not None else []
            self.try_eased(plan, BATCH)
        return found.bound

    def try_best_estimates(self, plans: Sequence[Plan]) -> None:
        """Try plans with stages: those estimated not to fit come last, that first which needs the least."""
        estimates: dict[Plan, QuickEstimate] = {}
        for plan in plans:
            if not self._clock.has_time():
                return
            estimate = self._trials.estimate(self._trials.eased(plan, self._limit))
            if estimate.seconds < inf:
                estimates[plan] = estimate
        order = sorted(
            estimates, key=lambda one: (max(estimates[one].bytes / self._limit, 1.0), estimates[one].seconds)
        )
        fitting = nodes = 0
        for plan in order[:_MOST_TRIED]:
            quickest = self.best.seconds if self.best is not None else inf
            nodes += self._trials.nodes(plan)
            too_large = nodes > _MOST_NODES and self.best is not None
            if fitting > _TRIED or estimates[plan].seconds * _OPTIMISM > quickest or too_large:
                break
            if not self._clock.has_time():
                break
            fitting += any(map(self._fits, self.try_eased(plan, QUICK)))


def _nothing_fits(tried: Sequence[PricedPlan], limit: float) -> ConfigurationError:
    if not tried:
        return ConfigurationError(
            "auto_parallel_search_mode 'everything': no plan can be laid out; set pipeline_stages and micro_size"
        )
    closest = min(tried, key=lambda one: one.bytes)
    return ConfigurationError(
        f"auto_parallel_search_mode 'everything': a rank may need {limit / 1e9:.3g} GB, and nothing fits; what comes "
        f"closest needs {closest.bytes / 1e9:.3g} GB, {(closest.bytes - limit) / 1e9:.3g} GB too much: {closest.plan}; "
        "take more ranks or a smaller batch"
    )
