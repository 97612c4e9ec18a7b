"""Other ways to cut the network of a script, side by side with its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from mpiparallel.checkpoint.strategy.strategy_file import read_strategy
from mpiparallel.compile.staging.place_stages import place_stages
from mpiparallel.compile.strategies import Strategies
from mpiparallel.context.simulation import CompiledNetwork
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ConfigurationError, StrategyFileError
from mpiparallel.launch.plan.report import amount, duration
from mpiparallel.launch.simulate.job import forecast_of
from mpiparallel.launch.simulate.report import table
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.parallel.saved_strategies import SavedStrategies
from mpiparallel.pipeline import SCHEDULES
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.forecast.forecast import Forecast
from mpiparallel.search.machine.machine import Machine
from mpiparallel.search.problem.task import Task
from mpiparallel.search.search import MODES, search

WRITTEN: Final = "written"
BATCH: Final = "batch"
SHARDED: Final = "+optimizer"
"""What is written behind a name, so that the parallel optimizer cuts weights and states among replicas."""

_UNFIT: Final = {
    True: "stages of a pipeline are compared by their schedule alone, as by 1f1b",
    False: "the script has no pipeline_stages to schedule; leave it out",
}


@dataclass(frozen=True)
class Compared:
    """A way to cut a network, by its name, and what it will do."""

    name: str
    forecast: Forecast


def compared(network: CompiledNetwork, names: Sequence[str], machine: Machine) -> tuple[Compared, ...]:
    """Return the forecasts of a network as it is written, and as each of ``names`` says.

    A name is "batch", a search for strategies, a schedule of pipeline stages, or a strategy file. With "+optimizer"
    behind it weights and states are cut too. Raises ConfigurationError or StrategyFileError for another.
    """
    wanted = list(dict.fromkeys((WRITTEN, *names)))
    return tuple(Compared(name, forecast_of(_cut_by(name, network, machine), machine)) for name in wanted)


def _cut_by(name: str, network: CompiledNetwork, machine: Machine) -> CompiledNetwork:
    """Return the network as ``name`` says that it is cut."""
    base, own = name.removesuffix(SHARDED), network.configuration
    if name == WRITTEN:
        return network
    if own.mode not in ParallelMode.ONE_BATCH:
        raise ConfigurationError(
            f"--compare {name}: in {own.mode} mode each rank has the whole network, which is cut in no other way; set "
            "parallel_mode to semi_auto_parallel or auto_parallel in the script"
        )
    keeps_shards = base in (WRITTEN, *SCHEDULES) and own.enable_parallel_optimizer
    configuration = replace(
        own,
        mode=ParallelMode.SEMI_AUTO_PARALLEL,
        enable_parallel_optimizer=name != base or keeps_shards,
        pipeline_schedule=base if base in SCHEDULES else own.pipeline_schedule,
        strategy_save_file="",
        group_info_file="",
    )
    if (own.pipeline_stages > 1) != (base in SCHEDULES) and base != WRITTEN:
        raise ConfigurationError(f"--compare {name}: {_UNFIT[own.pipeline_stages > 1]}")
    strategies = None if own.pipeline_stages > 1 else [_strategies(base, network, configuration, machine)]
    return CompiledNetwork(network.graph, place_stages(network.graph, configuration, strategies, {}), configuration)


def _strategies(
    base: str, network: CompiledNetwork, configuration: ParallelConfiguration, machine: Machine
) -> Strategies:
    """Return the strategies of a network without stages; a search begins without those of the program."""
    if base == WRITTEN:
        return _written(network)
    if base == BATCH:
        return Strategies()
    if base in MODES:
        searching = replace(configuration, mode=ParallelMode.AUTO_PARALLEL, search_mode=base)
        task = Task(network.graph, searching, Strategies(), {}, Prices(machine))
        return Strategies(search(task, base, configuration.search_timeout, machine.memory).strategies)
    if Path(base).is_file():
        return _of_file(base, network)
    raise ConfigurationError(
        f"--compare {base}: it is none of {', '.join((WRITTEN, BATCH, *MODES, *SCHEDULES))}, and no strategy file "
        f"(each may have {SHARDED} behind it)"
    )


def _written(network: CompiledNetwork) -> Strategies:
    """Return the strategies that a network has, found ones too."""
    given = Strategies.of(network.graph, dict(network.configuration.loaded_strategies))
    return given.with_inputs(network.staged.stages[0].strategies)


def _of_file(path: str, network: CompiledNetwork) -> Strategies:
    cuts = {name: item.cuts for name, item in read_strategy(path).strategies.items()}
    if not SavedStrategies(network.graph, cuts).fit:
        raise StrategyFileError(f"{path}: no operator of the network is in it; use this network's file")
    return Strategies.of(network.graph, cuts)


def comparison_text(rows: Sequence[Compared]) -> str:
    """Return ways to cut a network as a table; the quickest that fits has a star."""
    return "\n".join(table(list(_rows(rows)), "<>>>>>>>>"))


def _rows(rows: Sequence[Compared]) -> Iterator[tuple[str, ...]]:
    yield ("", "step", "computing", "moving", "bubble", "a rank", "weights", "activations", "")
    fitting = [row for row in rows if row.forecast.missing_memory <= 0]
    best = min(fitting, key=lambda row: row.forecast.seconds, default=None)
    for row in rows:
        forecast, kinds = row.forecast, row.forecast.fullest.memory.kinds
        parts = forecast.slowest.parts
        computing = parts["matrix products"] + parts["other operators"]
        yield (
            row.name,
            duration(forecast.seconds),
            duration(computing),
            duration(sum(parts.values()) - computing),
            f"{forecast.bubble * 100:.0f} %",
            amount(forecast.fullest.memory.total),
            amount(kinds["weights"]),
            amount(kinds["activations"]),
            "*" if row is best else "does not fit" if row not in fitting else "",
        )
