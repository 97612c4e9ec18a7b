"""The strategy and group files of a sharded training graph, in MindSpore's terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mpiparallel.checkpoint.files.regular_file import from_root
from mpiparallel.checkpoint.strategy.group_file import write_group_info
from mpiparallel.checkpoint.strategy.replica_groups import parameter_replica_groups, write_replica_groups
from mpiparallel.checkpoint.strategy.strategy_file import write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import StrategyRecord
from mpiparallel.communication.protocol import Communicator
from mpiparallel.compatibility.remark import remark
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.graph.graph import Node, Value
from mpiparallel.graph.operator import Strategy
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.border import Arrive
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.parallel.redistribution import redistribute
from mpiparallel.parallel.saved_strategies import saved_name
from mpiparallel.train.object_collectives import all_gather_object


def strategy_record(staged: StagedGraph, configuration: ParallelConfiguration) -> StrategyRecord:
    """Return what the strategy file of a rank says of the graph, or of its stage of it.

    It has the layouts of the trained parameters and their optimizer states, and the strategies of operators on them.

    As in MindSpore, scalars and states of other shapes are left out, and an operator is named by its first parameter.
    One without parameters, of which MindSpore saves nothing, is there by its node's name where a strategy was given.
    Parameters that are cut but not trained, such as moving statistics of channels, are there too, so files are
    converted rightly by it. MindSpore leaves them out. Stages have the gradients that MindSpore adds up over
    micro-batches, and what they receive, as it names that.
    """
    sharded = staged.of_rank(configuration.rank)
    trained = _trained(sharded, configuration.strategy_of_all)
    layouts = {name: _sliced(sharded.stored[name], value) for name, value in trained.items()}
    for name, value in sharded.graph.parameters.items():
        base = name.split(".", 1)[-1]
        if value.parameter is not None and value.parameter.transient:
            continue
        if base in trained and value.spec.shape == trained[base].spec.shape:
            layouts[name] = _sliced(sharded.stored[name], trained[base])
    layouts.update(_cut_untrained(sharded))
    strategies = _strategies(sharded)
    if staged.schedule is not None:
        # A file tells its stage by its operators, those of a single rank too.
        strategies = {**_uncut(sharded), **strategies, **_received(staged, sharded)}
        if sharded.graph.cotangents:
            layouts.update({f"accu_grads.{name}": layouts[name] for name in trained})
    stage = staged.stages.index(sharded)
    return StrategyRecord.of(layouts, strategies, configuration.optimizer_shard_size, stage)


def _strategies(sharded: ShardedGraph) -> dict[str, Strategy]:
    """Return the strategies of operators, first those that have MindSpore's names."""
    found: dict[str, Strategy] = {}
    named, unnamed = set(), []
    for node in _forward_nodes(sharded):
        name, strategy = saved_name(node), sharded.placements[node].strategy
        if name is None:
            unnamed.append(node)
            continue
        named.add(node.operator.step_of)
        if strategy is not None:
            found.setdefault(name, strategy)
    for node in unnamed:
        # Where one step of an operator has a name, it stands for all of them.
        whole = node.operator.step_of
        if node in sharded.strategies and (whole is None or whole not in named):
            found.setdefault(node.name, sharded.strategies[node])
    return found


def _uncut(sharded: ShardedGraph) -> dict[str, Strategy]:
    """Return the strategies that cut nothing, of the operators on parameters."""
    named = ((saved_name(node), node) for node in _forward_nodes(sharded))
    return {name: tuple((1,) * len(one.spec.shape) for one in node.inputs) for name, node in named if name is not None}


def _received(staged: StagedGraph, sharded: ShardedGraph) -> dict[str, Strategy]:
    """Return the strategies of what a stage receives to compute forward: that of the operator that has made it.

    It is called Receive and the first parameter of the operator that takes it.
    """
    found: dict[str, Strategy] = {}
    arrived = {value for node in sharded.graph.nodes if isinstance(node.operator, Arrive) for value in node.outputs}
    for node in _forward_nodes(sharded):
        name = saved_name(node)
        for value in node.inputs if name is not None else ():
            source = next((one for one in staged.stages if value in arrived and value.node in one.placements), None)
            if source is None or value.node is None or name is None:
                continue
            strategy = source.placements[value.node].strategy
            if strategy is not None:
                found.setdefault(f"Receive_{name.split('_', 1)[1]}", strategy)
    return found


def _sliced(stored: Layout, value: Value) -> Layout:
    """Return the layout of a parameter as files know it: what is each rank's own as rows, rank after rank.

    So ``merge_sliced_parameter`` joins slices that a program has cut by itself along dim 0.
    """
    if not stored.partial or not stored.global_shape:
        return stored
    if value.parameter is not None and value.parameter.layerwise_parallel:
        remark(
            "strategy_ckpt_save_file: of layerwise_parallel parameters it says that their slices follow one another "
            "along dim 0, rank after rank; those that you have cut along another dim are yours to merge"
        )
    rows = stored.global_shape[0] * stored.devices.size
    axes = tuple(range(len(stored.devices.shape)))
    return Layout((rows, *stored.global_shape[1:]), stored.devices, (axes, *((),) * (len(stored.global_shape) - 1)))


def _trained(sharded: ShardedGraph, also_others: bool = False) -> dict[str, Value]:
    return {
        name: value
        for name, value in sharded.graph.parameters.items()
        if value.parameter is not None and (value.parameter.requires_grad or (also_others and _is_shown(value)))
    }


def _is_shown(value: Value) -> bool:
    """Return whether a parameter that is not trained has anything to be cut, and outlives a step."""
    return value.spec.size > 1 and value.parameter is not None and not value.parameter.transient


def _cut_untrained(sharded: ShardedGraph) -> dict[str, Layout]:
    """Return the layouts of the parameters that are cut, though neither trained nor transient."""
    kept = _trained(sharded, also_others=True)
    return {name: sharded.stored[name] for name in kept if any(sharded.stored[name].cutting_axes)}


def _forward_nodes(sharded: ShardedGraph) -> list[Node]:
    return [node for node in sharded.graph.nodes if node.is_forward and not node.notes.follows]


def communication_groups(staged: StagedGraph, rank: int) -> list[tuple[int, ...]]:
    """Return the groups of more than one rank, but not of all of the job, that ``rank`` is in.

    They are those of repeated calculation, of partial sums, of redistributions and their adjoints, and of the replicas
    of each parameter. MindSpore names these groups; a program of ours may need fewer or smaller ones.
    """
    found: set[tuple[int, ...]] = set()
    sharded = staged.of_rank(rank)
    for node in _forward_nodes(sharded):
        placement = sharded.placements[node]
        for layout in placement.outputs:
            found.add(layout.partial_group(rank))
        found.add(_repeated(placement.inputs + placement.outputs, rank))
        for value, made in zip(node.outputs, placement.outputs, strict=True):
            found.update(step.ranks(rank) for step in redistribute(made, sharded.layouts[value]))
        for value, wanted in zip(node.inputs, placement.inputs, strict=True):
            if value.node is not None:
                found.update(step.ranks(rank) for step in redistribute(sharded.layouts[value], wanted))
    for value in sharded.graph.outputs:
        found.update(step.ranks(rank) for step in redistribute(sharded.layouts[value], sharded.output_layout(value)))
    for name in _trained(sharded):
        found.add(sharded.used[name].replica_group(rank))
    return sorted(group for group in found if 1 < len(group) < staged.rank_count)


def _repeated(layouts: tuple[Layout, ...], rank: int) -> tuple[int, ...]:
    """Return the ranks that compute the same as ``rank``: those that differ only in axes that no layout uses."""
    unused = set.intersection(*(set(layout.replica_axes) for layout in layouts))
    return layouts[0].devices.group(rank, unused)


def replica_ranks(sharded: ShardedGraph, rank: int) -> list[int]:
    """Return the ranks whose slices of all trained parameters are those of ``rank``."""
    groups = [set(sharded.stored[name].replica_group(rank)) for name in _trained(sharded)]
    return sorted(set.intersection(*groups)) if groups else []


def write_strategy_file(
    path: str, staged: StagedGraph, configuration: ParallelConfiguration, plan: Mapping[str, Any] | None = None
) -> None:
    """Write the strategy file of a rank's stage (protobuf, or JSON when the name ends in .json).

    JSON has the ``plan`` too, of which the stage is a part.
    """
    write_strategy(Path(path), replace(strategy_record(staged, configuration), plan=plan or {}))


def group_file_of_rank(path: str, communicator: Communicator) -> str:
    """Return where this rank writes its group file: ``path``, which is rank 0's alone where ranks work in one folder.

    The others then write ``<stem>_rank_<r>`` beside it. All ranks call it together.
    """
    rank, places = communicator.rank, all_gather_object(str(from_root(path)), communicator)
    if len(set(places)) == len(places):
        return path
    own = Path(path)
    remark(f"{path} is the group file of rank 0; the others write {own.stem}_rank_<r>{own.suffix} beside it")
    return path if rank == 0 else str(own.with_name(f"{own.stem}_rank_{rank}{own.suffix}"))


def write_group_file(path: str, staged: StagedGraph, rank: int) -> None:
    """Write the group file of ``rank``, and beside it the replica groups of all that is stored."""
    sharded = staged.of_rank(rank)
    write_group_info(Path(path), communication_groups(staged, rank), replica_ranks(sharded, rank))
    write_replica_groups(path, rank, parameter_replica_groups(sharded.stored, rank))
