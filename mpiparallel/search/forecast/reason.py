"""Why an operator is cut as it is: what decided, and what a step would take if it were cut otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from mpiparallel.compile.place import place
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.strategies import Strategies
from mpiparallel.errors import LayoutError, StrategyError
from mpiparallel.graph.graph import Node
from mpiparallel.graph.operator import Strategy
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.search.cost.memory import bytes_kept
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.cost.step import step_cost
from mpiparallel.search.forecast.operators import Rules
from mpiparallel.search.problem.choices import options_of


@dataclass(frozen=True)
class Alternative:
    """Another strategy of an operator: what a step would take and a rank would keep, all else as it is."""

    strategy: Strategy
    seconds: float
    kept_bytes: int


@dataclass(frozen=True)
class Reason:
    """What decided on an operator, and its alternatives, the cheapest first.

    ``strategy`` is () where it has none; ``tried`` of ``possible`` alternatives were looked at.
    """

    operator: str
    rule: str
    strategy: Strategy
    seconds: float
    kept_bytes: int
    alternatives: tuple[Alternative, ...]
    tried: int
    possible: int


def reason_of(
    node: Node,
    sharded: ShardedGraph,
    configuration: ParallelConfiguration,
    prices: Prices,
    in_time: Callable[[], bool] = lambda: True,
) -> Reason:
    """Return why a node of a network without stages is cut as it is; alternatives are tried while there is time.

    Each is placed and priced with all other operators as they are, those without a strategy following anew.
    """
    rule = Rules(sharded, configuration).of(node)
    chosen = sharded.strategies.get(node, ())
    cost = step_cost(sharded, prices).seconds
    options = _options(node, sharded, configuration)
    found = []
    tried = 0
    given = Strategies.of(sharded.graph, dict(configuration.loaded_strategies)).with_inputs(sharded.strategies)
    for option in options:
        if not in_time():
            break
        tried += 1
        try:
            other = place(sharded.graph, configuration, given.with_inputs({node: option}), {})
        except (StrategyError, LayoutError):
            # It cannot be beside the strategies of the others: they may share a parameter.
            continue
        found.append(Alternative(option, step_cost(other, prices).seconds, bytes_kept(other)))
    found.sort(key=lambda one: one.seconds)
    return Reason(node.name, rule, chosen, cost, bytes_kept(sharded), tuple(found), tried, len(options))


def _options(node: Node, sharded: ShardedGraph, configuration: ParallelConfiguration) -> list[Strategy]:
    """Return the alternatives of a node, those first that use as many ranks as it does."""
    if configuration.mode not in ParallelMode.ONE_BATCH or configuration.pipeline_stages > 1:
        return []
    chosen = sharded.strategies.get(node)
    placed = tuple(layout.cuts for layout in sharded.placements[node].inputs) if chosen is None else chosen
    options = [one for one in options_of(node, sharded.devices.size) if one not in (chosen, placed)]
    return sorted(options, key=lambda one: abs(_used(one) - _used(placed)))


def _used(strategy: Strategy) -> int:
    return max((prod(cuts) for cuts in strategy), default=1)
