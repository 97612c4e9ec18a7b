"""The context's ``strategy_ckpt_load_file``: read for those who cut networks, and held against what they made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

from mpiparallel.checkpoint.strategy.merged_stages import stages_of
from mpiparallel.checkpoint.strategy.strategy_file import read_strategy
from mpiparallel.checkpoint.strategy.strategy_record import MERGED_STAGE, LayoutItem, StrategyRecord
from mpiparallel.checkpoint.transform.stored_layout import stored_layout
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.context.settings import get_auto_parallel_context, take_strategies
from mpiparallel.errors import StrategyFileError, about
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.parallel.saved_strategies import SavedStrategies

_NAMES_SHOWN = 3


def take_loaded_strategies() -> Mapping[str, Any]:
    """Read the ``strategy_ckpt_load_file`` of the context, if there is one, for all networks that are cut from now on.

    An operator whose name is in the file takes its strategy from there, whatever the program says; another keeps its
    own, or is batch parallel. This is what MindSpore does. A file of another number of devices cuts nothing. Returns
    the plan that the file has, which says more than strategies, or nothing. Raises StrategyFileError if the file cannot
    be read.
    """
    path = get_auto_parallel_context("strategy_ckpt_load_file")
    plan: Mapping[str, Any] = {}
    if path:
        record = read_strategy(path)
        plan = record.plan
        cuts = tuple((name, record.strategies[name].cuts) for name in sorted(record.strategies))
        stages = stages_of(record) if record.current_stage == MERGED_STAGE else ()
        counts = {prod(item.device_matrix) for item in record.layouts.values()}
        made_for = stages[-1].ranks.stop if stages else counts.pop() if len(counts) == 1 else 0
        take_strategies(path, cuts, made_for)
    return plan


def check_loaded_strategies(staged: StagedGraph, configuration: ParallelConfiguration) -> None:
    """Raise StrategyFileError unless each stage is cut as the loaded file says, as far as their names agree.

    The shards of the parallel optimizer are left to the context: they may differ from the file's.
    """
    path = configuration.strategy_load_file
    if not path or not configuration.loaded_strategies:
        return
    record = read_strategy(path)
    if record.plan:
        # It is in the file whole, with all stages, whichever the file is of.
        return
    with about(path):
        saved = [stage.items for stage in stages_of(record)]
        whole = [record.layouts] * len(staged.stages)
        for stage, items in enumerate(saved if len(saved) == len(whole) else whole):
            sharded = staged.stages[stage]
            _check_names(sharded, record, "the network" if len(whole) == 1 else f"stage {stage}")
            for name in sorted(items.keys() & sharded.used.keys()):
                with about(f'parameter "{name}"'):
                    _check_layout(sharded, name, items[name])


def _check_names(sharded: ShardedGraph, record: StrategyRecord, whose: str) -> None:
    cuts = {name: item.cuts for name, item in record.strategies.items()}
    if not SavedStrategies(sharded.graph, cuts).fit:
        listed = ", ".join(f'"{name}"' for name in sorted(record.strategies)[:_NAMES_SHOWN])
        raise StrategyFileError(
            f"no operator of {whose} is in it; it has {listed}, ...: use this network's file, for stages that which "
            "merge_pipeline_strategys makes"
        )


def _check_layout(sharded: ShardedGraph, name: str, item: LayoutItem) -> None:
    made = sharded.used[name]
    wanted = replace(stored_layout(item, made.global_shape, made.devices.first_rank), optimizer_axes=())
    if wanted.devices.size != made.devices.size:
        raise StrategyFileError(
            f"it is laid out on {wanted.devices.size} devices in the file, but its stage is on {made.devices.size}; "
            "use the file of a training in the same stages"
        )
    if wanted.canonical != made.canonical:
        raise StrategyFileError(
            f"the file lays it out as {wanted}, the strategies of the operators on it as {made}; use the file of this "
            "network, or give these operators the strategies that the file was made with"
        )
