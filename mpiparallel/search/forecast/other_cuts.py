"""In which other ways an operator could be cut, all else as it is: in one piece, in stages, on ranks' own batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from mpiparallel.compile.place import place
from mpiparallel.compile.recomputation import RECOMPUTED
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.compile.staging.place_stages import place_stages
from mpiparallel.compile.strategies import Strategies
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import MpiParallelError
from mpiparallel.graph.graph import Graph, Node
from mpiparallel.graph.operator import Strategy
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.search.problem.choices import options_of

LayOut = Callable[[ParallelConfiguration], tuple[Graph, StagedGraph]]
"""Lays a network out by a configuration: its graph on whole tensors, and the stages."""


@dataclass(frozen=True)
class OtherCut:
    """Another cut of an operator: its strategy, in words ``how`` else it is other, and the whole network cut so."""

    strategy: Strategy
    how: str
    laid_out: Callable[[], StagedGraph]


def other_cuts_of(
    node: Node,
    stage: int,
    graph: Graph,
    staged: StagedGraph,
    configuration: ParallelConfiguration,
    lay_out: LayOut | None,
) -> list[OtherCut]:
    """Return the other strategies of a node of a ``stage``, first those that use as many ranks as its own."""
    if configuration.mode in ParallelMode.OWN_BATCH:
        return [*_shards(node, staged, configuration), *_of_one_batch(node, staged, configuration, lay_out)]
    if configuration.mode not in ParallelMode.ONE_BATCH:
        return []
    sharded = staged.stages[stage]
    loaded = Strategies.of(graph, dict(configuration.loaded_strategies))
    given = [loaded.with_inputs(one.strategies) for one in staged.stages]

    def cut(option: Strategy) -> StagedGraph:
        own = given[stage].with_inputs(dict.fromkeys(_computed_alike(node, graph), option))
        return place_stages(graph, configuration, [*given[:stage], own, *given[stage + 1 :]], {})

    return [OtherCut(option, "", partial(cut, option)) for option in _options(node, sharded)]


def _computed_alike(node: Node, graph: Graph) -> list[Node]:
    """Return the nodes that compute the same as one: those of all micro-batches, and what is computed once more."""
    name = node.name.removeprefix(RECOMPUTED)
    return [one for one in graph.nodes if one.is_forward and one.name.removeprefix(RECOMPUTED) == name]


def _options(node: Node, sharded: ShardedGraph) -> list[Strategy]:
    chosen = sharded.strategies.get(node)
    placed = tuple(layout.cuts for layout in sharded.placements[node].inputs) if chosen is None else chosen
    options = [one for one in options_of(node, sharded.devices.size) if one not in (chosen, placed)]
    return sorted(options, key=lambda one: abs(_used(one) - _used(placed)))


def _used(strategy: Strategy) -> int:
    return max((prod(cuts) for cuts in strategy), default=1)


def _shards(node: Node, staged: StagedGraph, configuration: ParallelConfiguration) -> Sequence[OtherCut]:
    """Return what the parallel optimizer would change, or that there is none, where a node has a trained parameter."""
    if not any(value.parameter is not None and value.parameter.requires_grad for value in node.inputs):
        return ()
    shards = not configuration.enable_parallel_optimizer
    other = replace(configuration, enable_parallel_optimizer=shards)
    graph = staged.stages[0].graph
    return (
        OtherCut(
            (),
            f"{'with' if shards else 'without'} the parallel optimizer, for all weights",
            lambda: StagedGraph((place(graph, other, held={}),)),
        ),
    )


def _of_one_batch(
    node: Node, staged: StagedGraph, configuration: ParallelConfiguration, lay_out: LayOut | None
) -> Sequence[OtherCut]:
    """Return the other cuts of a node where the batches of all ranks are taken as one, and all else is cut by it.

    There are none for a network that is another then: with parameters that are each rank's own, or collectives.
    """
    own = staged.stages[0].graph
    is_plain = not any(one.operator.kind == "communication" for one in own.nodes if one.is_forward)
    layerwise = any(
        value.parameter is not None and value.parameter.layerwise_parallel for value in own.parameters.values()
    )
    if lay_out is None or layerwise or not is_plain:
        return ()
    mode = ParallelMode.SEMI_AUTO_PARALLEL
    together = replace(configuration, mode=mode, rank=0, strategy_save_file="", group_info_file="")
    try:
        graph, by_batch = lay_out(together)
    except MpiParallelError:
        return ()
    same = next((one for one in graph.nodes if one.name == node.name and one.is_forward), None)
    if same is None:
        return ()
    return [
        OtherCut(one.strategy, f"in {mode}", one.laid_out)
        for one in other_cuts_of(same, 0, graph, by_batch, together, None)
    ]
