"""Each operator of a network: how it is cut, who said so, and what it and its gradient take in a step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Node
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.parallel.saved_strategies import SavedStrategies
from mpiparallel.search.cost.timed_nodes import TimedNode
from mpiparallel.search.forecast.move import Move, Owners


@dataclass(frozen=True)
class OperatorForecast:
    """An operator of the network on the ranks of its ``stage``.

    ``cuts`` are in how many parts each dim of each input is cut, ``output`` how its first output is; ``rule`` says what
    decided. ``computing`` and ``moving`` are the seconds of it and its gradient. ``sources`` are the operators that it
    takes its inputs from.
    """

    name: str
    operator: str
    stage: int
    parameters: tuple[str, ...]
    cuts: tuple[tuple[int, ...], ...]
    output: str
    rule: str
    computing: float
    moving: float
    moved_bytes: int
    sources: tuple[str, ...]


def operators_of(
    stage: int,
    sharded: ShardedGraph,
    configuration: ParallelConfiguration,
    timed: Sequence[TimedNode],
    moves: Iterable[Move],
) -> tuple[OperatorForecast, ...]:
    """Return the operators of a stage, in the order of the network."""
    owners, rules = Owners(sharded), Rules(sharded, configuration)
    computing, moving, moved = (
        defaultdict[str, float](float),
        defaultdict[str, float](float),
        defaultdict[str, int](int),
    )
    for one in timed:
        if one.step is None:
            computing[owners.of_node(one.node)] += one.seconds
    for move in moves:
        moving[move.operator] += move.seconds
        moved[move.operator] += move.byte_count
    found = []
    for node in sharded.graph.nodes:
        if not node.is_forward or node.operator.kind == "communication":
            continue
        placement = sharded.placements[node]
        found.append(
            OperatorForecast(
                node.name,
                node.operator.name,
                stage,
                tuple(value.name for value in node.inputs if value.parameter is not None),
                tuple(layout.cuts for layout in placement.inputs),
                layout_text(placement.outputs[0]) if placement.outputs else "",
                rules.of(node),
                computing[node.name],
                moving[node.name],
                moved[node.name],
                tuple(dict.fromkeys(value.node.name for value in node.inputs if value.node is not None)),
            )
        )
    return tuple(found)


def layout_text(layout: Layout) -> str:
    """Return a layout as a reader is told it: extents, with the parts of those that are cut.

    >>> from mpiparallel.layout.device_matrix import DeviceMatrix
    >>> layout_text(Layout((8, 6), DeviceMatrix((2, 4)), ((0,), ())))
    '8/2 x 6, 4 copies'
    """
    dims = zip(layout.global_shape, layout.cuts, strict=True)
    cuts = " x ".join(f"{extent}/{parts}" if parts > 1 else str(extent) for extent, parts in dims) or "scalar"
    copies = f", {layout.replica_count} copies" if layout.replica_count > 1 else ""
    return f"{cuts}{copies}" + (f", partial {layout.reduction}" if layout.partial else "")


class Rules:
    """What decided on the strategy of each operator."""

    def __init__(self, sharded: ShardedGraph, configuration: ParallelConfiguration) -> None:
        self._sharded, self._configuration = sharded, configuration
        self._saved = SavedStrategies(sharded.graph, dict(configuration.loaded_strategies))

    def of(self, node: Node) -> str:
        """Return the rule by which a node was placed, as a reader is told it."""
        mode, strategy = self._configuration.mode, self._sharded.strategies.get(node)
        if mode in ParallelMode.OWN_BATCH:
            return self._of_own_batch(node)
        if self._sharded.devices.size == 1:
            return "one rank has all of it"
        if strategy is not None:
            if self._configuration.loaded_strategies and self._saved.of(node) == strategy != node.operator.strategy:
                path = self._configuration.strategy_load_file
                return f"strategy of the file {path}" if path else "found with stages and all else"
            if node.operator.strategy == strategy:
                return "strategy that the program sets by shard"
            return f"found by {self._configuration.search_mode}"
        if node.operator.follows or node.notes.follows or node.operator.keeps_layouts:
            return "no strategy: it follows its input"
        return "no strategy: cut by the batch, its first dim"

    def _of_own_batch(self, node: Node) -> str:
        """Return what is done where each rank has a batch of its own, with the gradients of the node's parameters."""
        ranks, stored = self._sharded.devices.size, self._sharded.stored
        told = [f"{self._configuration.mode}: each rank computes the whole of it on its own batch"]
        for value in node.inputs:
            if value.parameter is None or not value.parameter.requires_grad:
                continue
            if value.parameter.layerwise_parallel:
                told.append(f"{value.name} is layerwise_parallel, each rank's own, and its gradient is not summed")
            elif stored[value.name].optimizer_axes:
                told.append(f"the gradient of {value.name} is summed over {ranks} ranks, each of which updates a part")
            else:
                told.append(f"the gradient of {value.name} is summed over {ranks} ranks, which all update it")
        return "; ".join(told)
