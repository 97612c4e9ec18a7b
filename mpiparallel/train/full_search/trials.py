"""What a plan would take: quickly from one micro-batch, and exactly from what the compiler makes of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf
from typing import Any, Final

from mpiparallel.compile.strategies import Strategies
from mpiparallel.context.compiled_function import TriedFunction
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ConfigurationError, LayoutError, MpiParallelError, ScheduleError, StrategyError
from mpiparallel.graph.graph import Graph
from mpiparallel.graph.operator import Strategy
from mpiparallel.nn.wrap.pipeline_cell import PipelineCell
from mpiparallel.nn.wrap.train_one_step import TrainOneStepCell
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.search.cost.floor import least_seconds, least_seconds_in_stages
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.cost.scratch import nodes_with_scratch
from mpiparallel.search.forecast.forecast import make_forecast
from mpiparallel.search.forecast.timeline import counted_seconds
from mpiparallel.search.problem.clock import Clock
from mpiparallel.search.problem.task import Task
from mpiparallel.search.search import search
from mpiparallel.train.full_search.profile import LayerNumbers, LayerProfile, profiled
from mpiparallel.train.full_search.quick_estimate import QuickEstimate, QuickEstimator
from mpiparallel.train.full_search.training_plan import Plan

QUICK: Final = "recursive_programming"
BEST: Final = "optimal"
BATCH: Final = "batch"
"""In place of a search: all operators are cut by the batch."""
HELD: Final = "held"
"""The best strategies with all operators that need scratch memory, which searches do not count, cut by the batch."""
_REFUSALS: Final = (ConfigurationError, LayoutError, ScheduleError, StrategyError)

_Strategies = dict[str, Strategy]


@dataclass(frozen=True)
class PricedPlan:
    """What a plan takes: seconds as searches count them, bytes by what its ranks would run.

    No strategies of such a plan go below ``bound`` seconds.
    """

    plan: Plan
    seconds: float
    bytes: int
    bound: float = 0.0


@dataclass(frozen=True)
class _Found:
    """Strategies by the names of nodes, what they keep and take by the search's count, and its bound of the seconds."""

    strategies: _Strategies
    bytes: float = 0.0
    seconds: float = inf
    bound: float = 0.0


class Trials:
    """Tries plans for the training of a batch on a machine; a search takes no longer than the clock allows.

    ``plans`` are those that may be asked about.
    """

    def __init__(
        self,
        training: TrainOneStepCell,
        cell: PipelineCell | None,
        batch: Sequence[Any],
        configuration: ParallelConfiguration,
        prices: Prices,
        clock: Clock,
        plans: Collection[Plan] = (),
    ) -> None:
        self._training, self._cell, self._batch = training, cell, list(batch)
        # What is tried has its strategies, and nothing is searched or written while it is laid out.
        self._configuration = replace(configuration, mode=ParallelMode.SEMI_AUTO_PARALLEL, strategy_save_file="")
        self._prices, self._clock = prices, clock
        self._pieces: dict[tuple[int, tuple[int, ...]], Graph] = {}
        self._found: dict[int, _Found] = {}
        self._searches: dict[tuple[Plan, str, float], _Found] = {}
        self._profiles: dict[tuple[int, int, bool], LayerProfile] = {}
        self._counts: dict[int, set[int]] = {}
        for plan in plans:
            self._counts.setdefault(plan.stages, set()).add(plan.micro_batches)
        layers = () if cell is None else cell.layers
        places = None
        if cell is not None and not cell.cuts_itself and any(one.pipeline_stage is not None for one in layers):
            places = [one.pipeline_stage or 0 for one in layers]
        self._estimator = QuickEstimator(() if cell is None else cell.recomputable, places)

    @cached_property
    def _layers(self) -> LayerNumbers:
        if self._cell is None:
            return LayerNumbers(0)
        function, layers = self._function(Plan(1)), self._cell.layers
        before = [one.pipeline_stage for one in layers]
        for number, one in enumerate(layers):
            one.pipeline_stage = number
        try:
            graph = function.piece(replace(self._configuration, pipeline_stages=1), 1)
        finally:
            for one, stage in zip(layers, before, strict=True):
                one.pipeline_stage = stage
        return LayerNumbers(len(layers), graph)

    @cached_property
    def with_scratch(self) -> frozenset[str]:
        """The names of the network's operators that need scratch memory, or whose gradients do."""
        nodes = (node.notes.origin or node for node in nodes_with_scratch(self._piece(1)))
        return frozenset(node.name for node in nodes if node.is_forward)

    def floor(self, stages: int) -> float:
        """Return seconds that no plan with so many stages goes below: all work dealt out evenly, at the best rates.

        Of stages whose micro-batches the network does not take there is no plan.
        """
        machine, ranks = self._prices.machine, self._configuration.device_num
        if stages == 1:
            return least_seconds(self._piece(1), machine, ranks)
        try:
            fewest, _ = self._ends(stages)
        except ConfigurationError:
            return inf
        return least_seconds_in_stages(self._piece(fewest), machine, ranks, stages, fewest)

    def nodes(self, plan: Plan) -> int:
        """Return how many nodes the graph of a plan has, roughly: what it takes to try it grows with them."""
        return len(self._piece(plan.micro_batches).nodes) * plan.micro_batches

    def estimate(self, plan: Plan) -> QuickEstimate:
        """Return what a plan may take; it has no strategies yet."""
        try:
            return self._estimator.estimate(plan, self._profile(plan))
        except _REFUSALS:
            return QuickEstimate(inf, inf)

    def eased(self, plan: Plan, limit: float) -> Plan:
        """Return a plan with as few seconds of recomputation as it is estimated to need to fit into ``limit`` bytes."""
        try:
            return replace(plan, recomputes=self._estimator.recomputed(plan, self._profile(plan), limit))
        except _REFUSALS:
            return plan

    def tried(self, plan: Plan, mode: str = QUICK, limit: float = inf) -> PricedPlan | None:
        """Return what a plan takes, with the strategies that a search finds for it; None where it cannot be.

        ``mode`` is the search, BATCH or HELD; under another than the quick one strategies that keep ``limit`` bytes are
        looked for.
        """
        try:
            found = self._strategies(plan) if mode == QUICK else self._searched(plan, mode, limit)
            if mode not in (QUICK, BATCH) and limit < inf:
                return self._narrowed(plan, mode, limit, found)
            return self._priced(plan, found)
        except _REFUSALS:
            return None
        except MpiParallelError:
            if plan.micro_batches == 1:
                raise
            # The network itself may not be able to take so few rows.
            return None

    def _narrowed(self, plan: Plan, mode: str, limit: float, found: _Found) -> PricedPlan:
        """Return what fits into ``limit`` bytes by the compiler's count, which knows more than that of the search."""
        tried = self._priced(plan, found)
        for _ in range(_NARROWED):
            if tried.bytes <= limit or not self._clock.has_time() or plan.stages > 1:
                break
            less = found.bytes - (tried.bytes - limit) * _MARGIN
            if less <= 0:
                break
            found = self._searched(plan, mode, less)
            other = self._priced(plan, found)
            if other.bytes >= tried.bytes:
                break
            tried = other
        return tried

    def _priced(self, plan: Plan, found: _Found) -> PricedPlan:
        chosen = replace(plan, strategies=found.strategies)
        configuration = chosen.configured(self._configuration)
        staged = self._function(plan).staged(configuration)
        seconds = counted_seconds(staged, self._prices)
        memory = make_forecast(staged, configuration, self._prices).fullest.memory.total
        # The bound is one of the search's count: where that is more than the plan takes it says nothing.
        bound = found.bound if seconds >= found.seconds * (1 - 1e-9) else 0.0
        return PricedPlan(chosen, seconds, memory, bound)

    def _function(self, plan: Plan) -> TriedFunction:
        if self._cell is not None:
            self._cell.take(plan.micro_batches, plan.recomputes)
        return self._training.program.tried(self._batch)

    def _piece(self, count: int, recomputes: tuple[int, ...] = ()) -> Graph:
        found = self._pieces.get((count, recomputes))
        if found is None:
            alone = replace(self._configuration, pipeline_stages=1)
            function = self._function(Plan(1, 1, count, recomputes=recomputes))
            found = self._pieces[count, recomputes] = function.piece(alone, count)
        return found

    def _task(self, plan: Plan, graph: Graph, given: Strategies | None = None) -> Task:
        """Return one micro-batch on the ranks of a stage."""
        own = replace(
            self._configuration,
            device_num=plan.devices // plan.stages,
            pipeline_stages=1,
            pipeline_schedule="",
            enable_parallel_optimizer=plan.shards,
        )
        of_user = Strategies.of(graph, dict(self._configuration.loaded_strategies))
        return Task(graph, own, of_user if given is None else given, {}, self._prices, plan.stages)

    def _strategies(self, plan: Plan) -> _Found:
        """Return what the quick search finds for the first micro-batches that so many stages are tried with."""
        found = self._found.get(plan.stages)
        if found is None:
            plain = replace(plan, shards=False, recomputes=())
            found = self._found[plan.stages] = self._searched(plain, QUICK, inf)
        return found

    def _searched(self, plan: Plan, mode: str, limit: float) -> _Found:
        # What is recomputed changes what is kept, and so what fits, but no strategy where there is no limit. What is
        # the best of all is so within each limit that it keeps.
        free = replace(plan, strategies={}, recomputes=())
        found = self._searches.get((free, mode, inf))
        if found is not None and found.bytes <= limit:
            return found
        plan = free if limit == inf else replace(plan, strategies={})
        found = self._searches.get((plan, mode, limit))
        if found is None:
            found = self._searches[plan, mode, limit] = self._searched_anew(plan, mode, limit)
        return found

    def _searched_anew(self, plan: Plan, mode: str, limit: float) -> _Found:
        task = self._task(plan, self._piece(plan.micro_batches, plan.recomputes))
        if mode == BATCH:
            return _Found({node.name: strategy for node, strategy in task.given.inputs.items()})
        if task.configuration.device_num == 1:
            return _Found({})
        if mode == HELD:
            task = replace(task, given=self._held(task))
        try:
            found = search(task, BEST if mode == HELD else mode, max(self._clock.seconds_left, 0.0), limit)
        except ConfigurationError:
            if limit == inf:
                raise
            # Nothing fits by the search's own count, which is not that of the compiler.
            return self._searched(plan, mode, inf)
        names = {node.name: strategy for node, strategy in found.strategies.items()}
        repeated = {f"recomputed/{name}": strategy for name, strategy in names.items()}
        is_bound = plan.stages == plan.micro_batches == 1 and limit == inf
        return _Found({**repeated, **names}, found.memory, found.seconds, found.bound if is_bound else 0.0)

    def _held(self, task: Task) -> Strategies:
        """Return the strategies of the user, and the batch's of operators that need scratch memory."""
        placements = task.placed({}).placements
        held = {
            node: placed.strategy
            for node, placed in placements.items()
            if node.name in self.with_scratch and placed.strategy is not None
        }
        return task.given.with_inputs({**held, **task.given.inputs})

    def _profile(self, plan: Plan) -> LayerProfile:
        """Return the profile of a plan: between those of the fewest and the most micro-batches, which are laid out."""
        self._counts.setdefault(plan.stages, {plan.micro_batches})
        (fewest, most), count = self._ends(plan.stages), plan.micro_batches
        if count > most:
            raise ConfigurationError(f"the network takes no {count} micro-batches")
        found = self._laid_out(replace(plan, shards=False), fewest)
        if count > fewest:
            # All of it grows with the rows of a micro-batch, but for what does not depend on them.
            part = (1 / count - 1 / fewest) / (1 / most - 1 / fewest)
            found = found.between(self._laid_out(replace(plan, shards=False), most), part)
        if plan.shards:
            before, after = (self._laid_out(replace(plan, shards=shards), fewest) for shards in (False, True))
            found = found.changed(before, after)
        return found

    def _ends(self, stages: int) -> tuple[int, int]:
        """Return the fewest micro-batches with so many stages, and the most that the network can be taken in.

        Raises ConfigurationError where it can be taken in none of them.
        """
        counts = self._counts[stages]
        while counts:
            try:
                self._piece(max(counts))
            except MpiParallelError:
                counts.remove(max(counts))
            else:
                return min(counts), max(counts)
        # What is wrong with it as a whole it says itself.
        self._piece(1)
        raise ConfigurationError(f"the network takes no micro-batches for {stages} stages")

    def _laid_out(self, plan: Plan, count: int) -> LayerProfile:
        key = plan.stages, count, plan.shards
        found = self._profiles.get(key)
        if found is None:
            graph = self._piece(count)
            strategies = Strategies.of(graph, self._strategies(plan).strategies)
            sharded = self._task(plan, graph, strategies).placed({})
            found = self._profiles[key] = profiled(sharded, self._prices, self._layers)
        return found


_NARROWED: Final = 3
_MARGIN: Final = 1.02
