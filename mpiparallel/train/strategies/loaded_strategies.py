"""The context's ``strategy_ckpt_load_file``: read for those who cut networks, and held against what they made."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from mpiparallel.checkpoint.strategy.error_subject import about
from mpiparallel.checkpoint.strategy.strategy_file import read_strategy
from mpiparallel.checkpoint.strategy.strategy_record import LayoutItem, StrategyRecord
from mpiparallel.checkpoint.transform.stored_layout import stored_layout
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.context.settings import get_auto_parallel_context, take_strategies
from mpiparallel.errors import StrategyFileError
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.parallel.saved_strategies import SavedStrategies

_NAMES_SHOWN = 3


def take_loaded_strategies() -> None:
    """Read the ``strategy_ckpt_load_file`` of the context, if there is one, for all networks that are cut from now on.

    An operator whose name is in the file takes its strategy from there, whatever the program says; another keeps its
    own, or is batch parallel. This is what MindSpore does. A file of another number of devices cuts nothing. Raises
    StrategyFileError if the file cannot be read.
    """
    path = get_auto_parallel_context("strategy_ckpt_load_file")
    if path:
        record = read_strategy(path)
        cuts = tuple((name, record.strategies[name].cuts) for name in sorted(record.strategies))
        made_for = {prod(item.device_matrix) for item in record.layouts.values()}
        take_strategies(path, cuts, made_for.pop() if len(made_for) == 1 else 0)


def check_loaded_strategies(sharded: ShardedGraph, configuration: ParallelConfiguration) -> None:
    """Raise StrategyFileError unless the graph is cut as the loaded file says, as far as their names agree.

    The shards of the parallel optimizer are left to the context: they may differ from the file's.
    """
    path = configuration.strategy_load_file
    if not path or not configuration.loaded_strategies:
        return
    record = read_strategy(path)
    with about(path):
        _check_names(sharded, record)
        for name in sorted(record.layouts.keys() & sharded.used.keys()):
            with about(f'parameter "{name}"'):
                _check_layout(sharded, name, record.layouts[name])


def _check_names(sharded: ShardedGraph, record: StrategyRecord) -> None:
    cuts = {name: item.cuts for name, item in record.strategies.items()}
    if not SavedStrategies(sharded.graph, cuts).fit:
        listed = ", ".join(f'"{name}"' for name in sorted(record.strategies)[:_NAMES_SHOWN])
        raise StrategyFileError(f"no operator of the network is in it; it has {listed}, ...: use this network's file")


def _check_layout(sharded: ShardedGraph, name: str, item: LayoutItem) -> None:
    made = sharded.used[name]
    wanted = replace(stored_layout(item, made.global_shape, made.devices.first_rank), optimizer_axes=())
    if wanted.devices.size != made.devices.size:
        raise StrategyFileError(
            f"it is laid out on {wanted.devices.size} devices in the file, but there are {made.devices.size}; start as "
            "many ranks as the file was made for"
        )
    if wanted.canonical != made.canonical:
        raise StrategyFileError(
            f"the file lays it out as {wanted}, the strategies of the operators on it as {made}; use the file of this "
            "network, or give these operators the strategies that the file was made with"
        )
