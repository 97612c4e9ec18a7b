"""The quickest of many plans that fits into memory: those that promise most are tried, others have no chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from mpiparallel.errors import ConfigurationError
from mpiparallel.search.problem.clock import Clock
from mpiparallel.train.whole_choice.plan import Plan
from mpiparallel.train.whole_choice.promise import Promise
from mpiparallel.train.whole_choice.trials import BATCH, QUICK, Trials, Tried

_TRIED: Final = 6
"""How many plans with stages that fit are tried exactly, those first that promise most."""
_MOST_TRIED: Final = 24
_MOST_NODES: Final = 400_000
"""Graphs of so many nodes in all are laid out for plans with stages: some seconds for a hundred thousand."""
_OPTIMISM: Final = 0.8
"""A promise may be as much too long: what promises more than the best takes is not tried."""
_ROUNDS: Final = 4
"""How often what a plan recomputes is chosen anew, by how many bytes more or less it took than it had promised."""
_BEST: Final = "optimal"


@dataclass(frozen=True)
class Best:
    """The plan that was found, how many were tried, and seconds that no plan goes below."""

    tried: Tried
    count: int
    bound: float


def best_of(trials: Trials, plans: Sequence[Plan], limit: float, clock: Clock) -> Best:
    """Return the quickest plan that is found within ``limit`` bytes of a rank.

    Without stages the best strategies there are count, with shards and without, and the batch; with stages the plans
    that promise most. What does not fit has so many layers recomputed that it does.

    Raises ConfigurationError where nothing fits: it says what comes closest, and by how much.
    """
    finding = _Finding(trials, limit, clock)
    first = [plan for plan in plans if plan.stages == 1] or plans[:1]
    finding.try_eased(plans[0], QUICK)
    bounds = [max(finding.try_all_strategies(plan), trials.floor(plan.stages)) for plan in first]
    staged = [plan for plan in plans if plan not in first]
    bounds += [trials.floor(stages) for stages in {plan.stages for plan in staged}]
    finding.try_promising(staged)
    best = finding.best
    if best is None:
        raise _nothing_fits(finding.tried, limit)
    if best.plan.stages > 1:
        finding.try_eased(replace(best.plan, recomputes=(), strategies={}), _BEST)
    best = finding.best or best
    return Best(best, len(finding.tried), min(*bounds, best.seconds))


class _Finding:
    def __init__(self, trials: Trials, limit: float, clock: Clock) -> None:
        self._trials, self._limit, self._clock = trials, limit, clock
        self.tried: list[Tried] = []

    @property
    def best(self) -> Tried | None:
        """The quickest that fits, if anything does."""
        return min((one for one in self.tried if self._fits(one)), key=lambda one: one.seconds, default=None)

    def _fits(self, one: Tried) -> bool:
        return one.bytes <= self._limit

    def try_eased(self, plan: Plan, mode: str) -> list[Tried]:
        """Try a plan, with as many layers recomputed as it takes to fit; return what has been tried."""
        found: list[Tried] = []
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
            over = one.bytes - self._trials.promise(now).bytes
        return found

    def try_all_strategies(self, plan: Plan) -> float:
        """Try the best strategies of a plan without stages; return seconds that none go below."""
        if not self._clock.has_time():
            return 0.0
        found = self._trials.tried(plan, _BEST)
        if found is None:
            return 0.0
        self.tried.append(found)
        if not self._fits(found):
            self.try_eased(plan, _BEST)
            less = self._trials.tried(plan, _BEST, self._limit) if self._clock.has_time() else None
            self.tried += [less] if less is not None else []
            # Data parallel and ZeRO as they are may fit though they do not promise to.
            plain = self._trials.tried(plan, BATCH) if self._clock.has_time() else None
            self.tried += [plain] if plain is not None else []
            self.try_eased(plan, BATCH)
        return found.bound

    def try_promising(self, plans: Sequence[Plan]) -> None:
        """Try plans with stages: what promises not to fit comes last, that first which needs the least."""
        promises: dict[Plan, Promise] = {}
        for plan in plans:
            if not self._clock.has_time():
                return
            promise = self._trials.promise(self._trials.eased(plan, self._limit))
            if promise.seconds < inf:
                promises[plan] = promise
        order = sorted(promises, key=lambda one: (max(promises[one].bytes / self._limit, 1.0), promises[one].seconds))
        fitting = nodes = 0
        for plan in order[:_MOST_TRIED]:
            quickest = self.best.seconds if self.best is not None else inf
            nodes += self._trials.nodes(plan)
            too_large = nodes > _MOST_NODES and self.best is not None
            if fitting > _TRIED or promises[plan].seconds * _OPTIMISM > quickest or too_large:
                break
            if not self._clock.has_time():
                break
            fitting += any(map(self._fits, self.try_eased(plan, QUICK)))


def _nothing_fits(tried: Sequence[Tried], limit: float) -> ConfigurationError:
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
