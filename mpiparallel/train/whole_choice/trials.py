"""What a plan would take: quickly from one micro-batch, and exactly from what the compiler makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any, Final, NamedTuple

from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.strategies import Strategies
from mpiparallel.context.compiled_function import TriedFunction
from mpiparallel.errors import ConfigurationError, LayoutError, ScheduleError, StrategyError
from mpiparallel.graph.graph import Graph
from mpiparallel.graph.operator import Strategy
from mpiparallel.nn.wrap.pipeline_cell import PipelineCell
from mpiparallel.nn.wrap.train_one_step import TrainOneStepCell
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.pipeline.costs import Costs
from mpiparallel.pipeline.registry import make_schedule
from mpiparallel.pipeline.report import check
from mpiparallel.search.cost.memory import kept_for_gradient
from mpiparallel.search.cost.prices import Prices, bytes_held
from mpiparallel.search.cost.step import least_seconds
from mpiparallel.search.cost.timed_nodes import TimedNode, timed_nodes
from mpiparallel.search.forecast.forecast import make_forecast
from mpiparallel.search.forecast.move import Owners
from mpiparallel.search.problem.clock import Clock
from mpiparallel.search.problem.task import Task
from mpiparallel.search.search import search
from mpiparallel.train.whole_choice.plan import Plan

_QUICK: Final = "recursive_programming"
_OF_A_STEP: Final = ("gradients", "update")
_REFUSALS: Final = (ConfigurationError, LayoutError, ScheduleError, StrategyError)

_Strategies = dict[str, Strategy]


class Promise(NamedTuple):
    """What a plan may take, by one micro-batch: seconds of a step, bytes of a rank."""

    seconds: float
    bytes: float


@dataclass(frozen=True)
class Tried:
    """What a plan takes, by what its ranks would run."""

    plan: Plan
    seconds: float
    bytes: int


class _Profile(NamedTuple):
    """Seconds of one micro-batch through the network on the ranks of a stage, and bytes of a rank of it."""

    forward: float
    backward: float
    step: float
    kept: float
    held: float
    trained: float


class Trials:
    """Tries plans for the training of a batch on a machine; a search takes no longer than the clock allows."""

    def __init__(
        self,
        training: TrainOneStepCell,
        cell: PipelineCell | None,
        batch: Sequence[Any],
        configuration: ParallelConfiguration,
        prices: Prices,
        clock: Clock,
    ) -> None:
        self._training, self._cell, self._batch = training, cell, list(batch)
        # What is tried has its strategies, and nothing is searched or written while it is laid out.
        self._configuration = replace(configuration, mode=ParallelMode.SEMI_AUTO_PARALLEL, strategy_save_file="")
        self._prices, self._clock = prices, clock
        self._pieces: dict[int, Graph] = {}
        self._found: dict[int, _Strategies] = {}
        self._profiles: dict[tuple[int, int, bool], _Profile] = {}

    @cached_property
    def floor(self) -> float:
        """Seconds that no plan goes below: all operations dealt out evenly, at the best rate, launched at no cost."""
        free = replace(self._prices.machine, launch=0.0)
        return least_seconds(self._piece(1), free, self._configuration.device_num)

    def promise(self, plan: Plan) -> Promise:
        """Return what a plan may take; it has no strategies yet. Stages are taken to be equally long."""
        try:
            profile = self._profile(plan)
        except _REFUSALS:
            return Promise(inf, inf)
        forward, backward, step = profile.forward, profile.backward, profile.step
        again = forward if plan.recomputes else 0.0
        layers = max(1, len(self._cell.layers)) if self._cell is not None else 1
        share = -(-layers // plan.stages) / layers if plan.stages > 1 else 1.0
        at_a_time = profile.kept / layers
        kept = (profile.kept / layers if plan.recomputes else profile.kept) * share
        if plan.stages == 1:
            seconds = plan.micro_batches * (forward + backward + again) + step
            return Promise(seconds, profile.held + profile.trained + plan.micro_batches * kept + at_a_time)
        half = (backward / 2 + again) * share
        costs = Costs.even(plan.stages, forward * share, half, backward / 2 * share)
        report = check(make_schedule(plan.schedule, plan.stages, plan.micro_batches), costs)
        held = (profile.held + 2 * profile.trained) * share
        return Promise(report.step + step * share, held + max(report.peaks) * kept + at_a_time)

    def tried(self, plan: Plan, mode: str = _QUICK, limit: float = inf) -> Tried | None:
        """Return what a plan takes, with the strategies that a search finds for it; None where it cannot be.

        ``mode`` is the search; under another than the quick one ``limit`` bytes are kept.
        """
        try:
            strategies = self._strategies(plan) if mode == _QUICK else self._searched(plan, mode, limit)
            chosen = replace(plan, strategies=strategies)
            configuration = chosen.configured(self._configuration)
            forecast = make_forecast(self._function(plan).staged(configuration), configuration, self._prices)
        except _REFUSALS:
            return None
        return Tried(chosen, forecast.seconds, forecast.fullest.memory.total)

    def _function(self, plan: Plan) -> TriedFunction:
        if self._cell is not None:
            self._cell.take(plan.micro_batches, plan.recomputes)
        return self._training.program.tried(self._batch)

    def _piece(self, count: int) -> Graph:
        found = self._pieces.get(count)
        if found is None:
            alone = replace(self._configuration, pipeline_stages=1)
            found = self._pieces[count] = self._function(Plan(1, 1, count)).piece(alone, count)
        return found

    def _task(self, plan: Plan, given: Strategies | None = None) -> Task:
        """Return one micro-batch on the ranks of a stage, where it is not recomputed: that changes no strategy."""
        graph = self._piece(plan.micro_batches)
        own = replace(
            self._configuration,
            device_num=plan.devices // plan.stages,
            pipeline_stages=1,
            pipeline_schedule="",
            enable_parallel_optimizer=plan.shards,
        )
        of_user = Strategies.of(graph, dict(self._configuration.loaded_strategies))
        return Task(graph, own, of_user if given is None else given, {}, self._prices, plan.stages)

    def _strategies(self, plan: Plan) -> _Strategies:
        """Return what the quick search finds for the first micro-batches that so many stages are tried with."""
        found = self._found.get(plan.stages)
        if found is None:
            found = self._found[plan.stages] = self._searched(replace(plan, shards=False), _QUICK, inf)
        return found

    def _searched(self, plan: Plan, mode: str, limit: float) -> _Strategies:
        task = self._task(plan)
        if task.configuration.device_num == 1:
            return {}
        try:
            found = search(task, mode, max(self._clock.seconds_left, 0.0), limit)
        except ConfigurationError:
            # Nothing fits by the search's own count, which is not that of the compiler.
            found = search(task, mode, max(self._clock.seconds_left, 0.0))
        names = {node.name: strategy for node, strategy in found.strategies.items()}
        return {**names, **{f"recomputed/{name}": strategy for name, strategy in names.items()}}

    def _profile(self, plan: Plan) -> _Profile:
        key = plan.stages, plan.micro_batches, plan.shards
        found = self._profiles.get(key)
        if found is None:
            graph = self._piece(plan.micro_batches)
            strategies = Strategies.of(graph, self._strategies(plan))
            found = self._profiles[key] = _profiled(self._task(plan, strategies).placed({}), self._prices)
        return found


def _profiled(sharded: ShardedGraph, prices: Prices) -> _Profile:
    timed = timed_nodes(sharded, prices)
    seconds = {"forward": 0.0, "backward": 0.0, "step": 0.0}
    phases = _Phases(sharded)
    for one in timed:
        seconds[phases.of(one)] += one.seconds
    kept = sum(bytes_held(sharded.layouts[one], one.spec.dtype.itemsize) for one in kept_for_gradient(sharded.graph))
    held = trained = 0
    for name, value in sharded.graph.parameters.items():
        size = bytes_held(sharded.stored[name], value.spec.dtype.itemsize)
        held += size
        trained += size if value.parameter is not None and value.parameter.requires_grad else 0
    return _Profile(seconds["forward"], seconds["backward"], seconds["step"], kept, held, trained)


class _Phases:
    """In which phase of a step a node of a rank is: of each micro-batch forward or backward, or of the step."""

    def __init__(self, sharded: ShardedGraph) -> None:
        nodes = sharded.graph.nodes
        last = max((place for place, node in enumerate(nodes) if node.notes.origin is not None), default=len(nodes))
        self._phases = {
            node.name: "step" if place > last else "forward" if node.is_forward else "backward"
            for place, node in enumerate(nodes)
        }
        self._owners = Owners(sharded)

    def of(self, one: TimedNode) -> str:
        """Return it."""
        known = self._phases.get(one.node.name)
        if known is not None:
            return known
        _, _, phase = self._owners.of_value(one.node.inputs[0].name)
        return "step" if phase in _OF_A_STEP else "backward" if phase == "backward" else "forward"
