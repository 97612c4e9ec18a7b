"""Sums of gradients that depend on too many choices at once, as what each choice alone has them cost at least.

Terms that are partial alike stay so while they are added, and are summed over the ranks once; where they differ, each
is moved first. Of ``k`` terms the first ``j`` may be alike, for any ``j``. What that costs is shared out equally among
those ``j``, what each other term costs is its own. Each term counts the least that it may have to pay for any ``j``. So
these never add up to more than the sum costs. They add up to all of it where all terms are alike, as in the best
strategies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Node, Value
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.operator_placement import OperatorPlacement
from mpiparallel.search.cost.moves import prices_of_pairs
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.problem.symbol import Symbol, combinations
from mpiparallel.search.problem.value_moves import Demand
from mpiparallel.search.problem.views import Table, coarsened


@dataclass(frozen=True)
class LooseSum:
    """The terms that nodes add up in this order; ``last`` makes the total."""

    terms: tuple[Value, ...]
    last: Node

    @property
    def total(self) -> Value:
        """What they add up to."""
        return self.last.outputs[0]


def loose_sums(nodes: Iterable[Node], demands: Mapping[Value, Sequence[Demand]]) -> list[LooseSum]:
    """Return the sums that ``nodes`` make; one that only another takes is a part of that."""
    found: dict[Value, LooseSum] = {}
    for node in nodes:
        terms: list[Value] = []
        for value in node.inputs:
            inner = found.get(value)
            if inner is not None and not terms and value not in demands and len(node.inputs) == 2:
                terms += found.pop(value).terms
            else:
                terms.append(value)
        found[node.outputs[0]] = LooseSum(tuple(terms), node)
    return list(found.values())


def stays(own: Symbol[Layout], demands: Sequence[Demand]) -> bool:
    """Return whether a value is wanted where it is, whatever is chosen."""
    for demand in demands:
        _, _, rows = combinations([own, demand.layout])
        pairs = zip(*(row.tolist() for row in rows), strict=True)
        if any(own.items[one].canonical != demand.layout.items[other].canonical for one, other in pairs):
            return False
    return True


def term_at_least(
    one: LooseSum, place: int, own: Symbol[Layout], at: Symbol[Layout], is_closed: bool, prices: Prices
) -> Table:
    """Return what the term at a place costs at least, where it is in ``own`` layout and terms that differ are added
    ``at`` another. That is also where the total is wanted, if the sum is closed.
    """
    count = len(one.terms)
    views, places, (held, wanted) = combinations([own, at])
    moves = prices_of_pairs(prices, own.items, at.items, (held, wanted), one.total.spec.dtype.itemsize)
    added, kept = (
        np.array([prices.computing(one.last, OperatorPlacement((layout,) * 2, (layout,))) for layout in of])[rows]
        for of, rows in ((at.items, wanted), (own.items, held))
    )
    least = moves + (added if place else 0.0)
    stays_partial = np.array([bool(layout.partial) and layout.reduction == "sum" for layout in own.items])[held]
    for alike in range(max(place + 1, 2), count + 1):
        moved_once = moves if alike < count or is_closed else 0.0
        shared = ((alike - 1) * kept + moved_once) / alike
        least = np.where(stays_partial, np.minimum(least, shared), least)
    return coarsened(views, least[places])
