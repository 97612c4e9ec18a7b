"""The decision on all that a training in auto parallel leaves open: the first rank makes it, the others are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

from mpiparallel.communication.agreement import failing_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.compatibility.remark import remark
from mpiparallel.context.settings import current_configuration
from mpiparallel.errors import ConfigurationError
from mpiparallel.nn.wrap.pipeline_cell import PipelineCell
from mpiparallel.nn.wrap.train_one_step import TrainOneStepCell
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.pipeline.schedule import Schedule
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.found_strategies import machine_of
from mpiparallel.search.problem.clock import Clock
from mpiparallel.train.full_search.candidates import Openness, candidates
from mpiparallel.train.full_search.open_training import pipeline_of
from mpiparallel.train.full_search.plan_search import best_of
from mpiparallel.train.full_search.training_plan import Plan
from mpiparallel.train.full_search.trials import Trials
from mpiparallel.train.object_collectives import broadcast_object, world_or_alone


def decide(training: TrainOneStepCell, batch: Sequence[Any], configuration: ParallelConfiguration) -> Plan:
    """Return the best plan that is found for a training, and set what it says; all ranks of the world call it.

    Raises ConfigurationError on all of them where nothing fits into the memory of a rank: it says what comes closest,
    and by how much. It does so too where what the user has set leaves no room for a plan.
    """
    _check(configuration)
    cell, ranks = pipeline_of(training), world_or_alone()
    together = ranks.size > 1 and ranks.size == configuration.device_num
    if ranks.size > 1 and not together:
        configuration = replace(configuration, search_timeout=inf)
    plan = _found_by_the_first(training, cell, batch, configuration, ranks) if together else None
    plan = plan or _found(training, cell, batch, configuration, ranks)
    plan.take(cell)
    return plan


def _check(configuration: ParallelConfiguration) -> None:
    if configuration.stage_ranks or isinstance(configuration.pipeline_schedule, Schedule):
        raise ConfigurationError(
            "auto_parallel_search_mode 'everything': it takes pipeline_stages as a number and a schedule by its name; "
            "for lists of your own take another search"
        )
    if not configuration.full_batch:
        raise ConfigurationError(
            "auto_parallel_search_mode 'everything': into how many pieces a batch is cut is not known before it; set "
            "full_batch=True and feed all ranks the same batch"
        )
    path = configuration.strategy_save_file
    if path and not path.endswith(".json"):
        raise ConfigurationError(
            f"auto_parallel_search_mode 'everything': strategy_ckpt_save_file {path!r} has no place for stages and the "
            "like; give it a name that ends in .json"
        )


def _found_by_the_first(
    training: TrainOneStepCell,
    cell: PipelineCell | None,
    batch: Sequence[Any],
    configuration: ParallelConfiguration,
    ranks: Communicator,
) -> Plan:
    said: dict[str, Any] = {}
    with failing_together(ranks, ConfigurationError):
        if ranks.rank == 0:
            said = _found(training, cell, batch, configuration, ranks).json
    return Plan.of_json(broadcast_object(said, ranks))


def _found(
    training: TrainOneStepCell,
    cell: PipelineCell | None,
    batch: Sequence[Any],
    configuration: ParallelConfiguration,
    ranks: Communicator,
) -> Plan:
    """Return the best plan, and say how good it is."""
    machine, clock = machine_of(configuration, ranks), Clock(configuration.search_timeout)
    rows = max((item.shape[0] for item in batch if item.ndim), default=1)
    plans = candidates(configuration, Openness.of(cell, rows))
    trials = Trials(training, cell, batch, configuration, Prices(machine), clock, plans)
    best = best_of(trials, plans, min(machine.memory, configuration.search_memory), clock)
    ended = "found" if clock.has_time() else f"stopped after {configuration.search_timeout:g} s with"
    remark(
        f"auto_parallel: everything {ended} {best.tried.plan}, the best of {len(plans)} plans, {best.count} of them "
        f"tried: a step takes {best.tried.seconds * 1e3:.3g} ms by the cost model and a rank "
        f"{best.tried.bytes / 1e9:.3g} GB; none takes less than {best.bound * 1e3:.3g} ms"
    )
    return best.tried.plan


def decided(
    training: TrainOneStepCell, batch: Sequence[Any], configuration: ParallelConfiguration
) -> tuple[ParallelConfiguration, Plan]:
    """Return the configuration to go on with, and the plan that it is of."""
    plan = decide(training, batch, configuration)
    now = plan.configured(replace(configuration, search_mode=current_configuration().search_mode))
    return replace(now, loaded_strategies=current_configuration().loaded_strategies or now.loaded_strategies), plan
