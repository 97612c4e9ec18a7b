"""The pass that gives every value of a graph a layout, decided once for all ranks."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mpiparallel.compile.data_parallel_policy import DataParallelPolicy
from mpiparallel.compile.policy import Policy
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.strategies import Strategies
from mpiparallel.compile.strategy_policy import StrategyPolicy
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.parallel.operator_placement import OperatorPlacement


def place(
    graph: Graph,
    configuration: ParallelConfiguration,
    strategies: Strategies | None = None,
    held: Mapping[str, Layout] | None = None,
    devices: DeviceMatrix | None = None,
    arriving: Mapping[Node, Layout] | None = None,
    leaving: Collection[Value] = (),
) -> ShardedGraph:
    """Return the graph with a layout for every value, by the policy of the parallel mode.

    ``strategies`` are by default those that the program and the loaded strategy file give. ``held`` has the layouts in
    which ranks hold parameters already, by name. ``devices`` are the ranks, by default from 0 on. ``arriving`` has the
    known layouts of nodes whose output comes from elsewhere. ``leaving`` values are summed at once, so other ranks get
    the same sum that is used here. Raises StrategyError where a strategy does not fit.
    """
    if strategies is None:
        strategies = Strategies.of(graph, dict(configuration.loaded_strategies))
    if held is None:
        held = held_layouts(graph, configuration)
    count = configuration.device_num
    matrix = devices or DeviceMatrix((count,) if count > 1 else ())
    sharded = ShardedGraph(graph, matrix, strategies=strategies.inputs)
    policy = _policy_of(configuration.mode)(sharded, strategies, held, configuration)
    policy.begin()
    for node in graph.nodes:
        known = (arriving or {}).get(node)
        placement = sharded.placements[node] = policy.place(node) if known is None else OperatorPlacement((), (known,))
        left = zip(node.outputs, policy.left_in(node, placement), strict=True)
        sharded.layouts.update((value, one.reduced() if value in leaving else one) for value, one in left)
    policy.end()
    return sharded


def held_layouts(graph: Graph, configuration: ParallelConfiguration) -> dict[str, Layout]:
    """Return the layouts in which the ranks hold parameters of a graph now, by name, as far as these count.

    Where all is ``laid_out_anew`` only what training has made each rank's own stays so.
    """
    parameters = ((name, value.parameter) for name, value in graph.parameters.items())
    held = {name: one.layout for name, one in parameters if one is not None and one.layout is not None}
    if not configuration.laid_out_anew:
        return held
    has_own = configuration.mode in ParallelMode.OWN_BATCH
    return {name: layout for name, layout in held.items() if has_own and layout.partial}


def _policy_of(mode: str) -> type[Policy]:
    return DataParallelPolicy if mode in ParallelMode.OWN_BATCH else StrategyPolicy
