"""Why an operator is cut as it is: what decided, and what a step would take if it were cut otherwise."""

from __future__ import annotations

from collections.abc import Callable

from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import MpiParallelError
from mpiparallel.graph.graph import Graph, Node
from mpiparallel.graph.operator import Strategy
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.search.cost.memory import bytes_kept, kept_for_gradient, live_nodes
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.forecast.forecast import make_forecast
from mpiparallel.search.forecast.operators import Rules
from mpiparallel.search.forecast.other_cuts import LayOut, OtherCut, other_cuts_of


@dataclass(frozen=True)
class Alternative:
    """Another strategy of an operator: what a step would take and a rank would keep, all else as it is.

    ``how`` says what else is other than it is; the strategy is () where that alone is.
    """

    strategy: Strategy
    seconds: float
    kept_bytes: int
    how: str = ""


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


class Reasons:
    """Why the operators of a network are cut as they are.

    ``graph`` is the network on whole tensors, or on a rank's own batch, ``staged`` how it is laid out. Where ranks have
    batches of their own, ``lay_out`` lays the network out by another configuration. Without it such a network has no
    other cuts to be held against.
    """

    def __init__(
        self,
        graph: Graph,
        staged: StagedGraph,
        configuration: ParallelConfiguration,
        prices: Prices,
        lay_out: LayOut | None = None,
    ) -> None:
        self._graph, self._staged, self._prices = graph, staged, prices
        self._configuration, self._lay_out = configuration, lay_out
        self._seconds: float | None = None

    def of(self, node: Node, in_time: Callable[[], bool] = lambda: True) -> Reason:
        """Return why a node is cut as it is; alternatives are tried while there is time.

        Each is placed and priced with all other operators as they are, those without a strategy following anew. With
        stages it is cut so for all micro-batches, and a step takes until the last stage has ended.
        """
        place = next(number for number, one in enumerate(self._staged.stages) if node in one.placements)
        sharded = self._staged.stages[place]
        if self._seconds is None:
            self._seconds = self._step(self._staged)
        cuts = other_cuts_of(node, place, self._graph, self._staged, self._configuration, self._lay_out)
        found, tried = [], 0
        for cut in cuts:
            if not in_time():
                break
            tried += 1
            other = self._priced(cut, place)
            if other is not None:
                found.append(other)
        found.sort(key=lambda one: one.seconds)
        rule, chosen = self._rule(node, place, sharded), sharded.strategies.get(node, ())
        return Reason(node.name, rule, chosen, self._seconds, _kept(sharded), tuple(found), tried, len(cuts))

    def _rule(self, node: Node, place: int, sharded: ShardedGraph) -> str:
        rule = Rules(sharded, self._configuration).of(node)
        count = len(self._staged.stages)
        return rule if count == 1 else f"{rule}; in stage {place} of {count}, on ranks {sharded.devices.ranks_text}"

    def _priced(self, cut: OtherCut, place: int) -> Alternative | None:
        """Return what another cut costs; None where it cannot be beside the others: they may share a parameter."""
        try:
            staged = cut.laid_out()
        except MpiParallelError:
            return None
        return Alternative(cut.strategy, self._step(staged), _kept(staged.stages[place]), cut.how)

    def _step(self, staged: StagedGraph) -> float:
        return make_forecast(staged, self._configuration, self._prices).seconds


def _kept(sharded: ShardedGraph) -> int:
    return bytes_kept(sharded, kept_for_gradient(live_nodes(sharded.graph)))
