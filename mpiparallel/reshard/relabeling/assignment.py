"""The linear assignment of ranks to places of a target; it needs SciPy, of the extra ``relabel``."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import permutations
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpiparallel.errors import ConfigurationError
from mpiparallel.reshard.forecast.part_overlaps import Integers
from mpiparallel.reshard.relabeling.volumes import Volumes

# A table of 2,048 ranks takes 32 MiB a copy and its assignment half a second.
DENSE_CELLS: Final = 1 << 22
# So many pairs of ranks that share bytes take seconds.
SPARSE_PAIRS: Final = 1 << 21
_MOST_AXES: Final = 5


def assign(volumes: Volumes, own: NDArray[np.intp], shapes: Collection[tuple[int, ...]]) -> NDArray[np.intp]:
    """Return a candidate for each place, so that most bytes stay; where equal, more places get that of ``own``.

    The best of all up to 2,048 ranks, and beyond where few pairs of ranks share bytes. Else replicas on thousands of
    ranks make it too large. Then it is the best of the orders of the axes of the target's device matrices, which have
    ``shapes``. Raises ConfigurationError without SciPy.
    """
    _import_scipy()
    if not own.size:
        return own
    if volumes.places.size * volumes.candidates.size <= DENSE_CELLS:
        return _dense(volumes, own)
    reduced_pairs = [reduced for reduced in volumes.reduced_pairs if not reduced.is_same_everywhere()]
    if sum(reduced.pair_count() for reduced in reduced_pairs) <= SPARSE_PAIRS:
        pairs = [reduced.shared_pairs() for reduced in reduced_pairs]
        return _sparse(pairs, volumes.candidates.size, own)
    start = _without_scarcity(own, volumes.candidates.size, own)
    return max([start, *_axis_orders(start, shapes)], key=volumes.kept)


def _axis_orders(start: NDArray[np.intp], shapes: Collection[tuple[int, ...]]) -> Iterator[NDArray[np.intp]]:
    """Yield what ``start`` becomes when the axes of a device matrix are counted in another order."""
    for shape in shapes:
        if prod(shape) != start.size or len(shape) > _MOST_AXES:
            continue
        for order in permutations(range(len(shape))):
            extents = [shape[axis] for axis in order]
            yield start.reshape(extents).transpose(np.argsort(order)).ravel()


def _import_scipy() -> None:
    try:
        import scipy.optimize  # noqa: F401  an optional extra, slow to import
    except ImportError as error:
        raise ConfigurationError("relabeling needs SciPy; pip install mpiparallel[relabel]") from error


def _dense(volumes: Volumes, own: NDArray[np.intp]) -> NDArray[np.intp]:
    from scipy.optimize import linear_sum_assignment

    bytes_shared = volumes.dense()
    gains = bytes_shared / max(int(np.gcd.reduce(bytes_shared, axis=None)), 1)
    known = np.flatnonzero(own >= 0)
    gains[known, own[known]] += 1 / (own.size + 1)
    answer: NDArray[np.intp] = linear_sum_assignment(gains, maximize=True)[1]
    return answer


def _sparse(
    pairs: list[tuple[NDArray[np.intp], NDArray[np.intp], Integers]], candidates: int, own: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return the same from the pairs that share bytes.

    Places without a partner are matched to stand-ins, and so are candidates; then a full matching always exists.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    known = np.flatnonzero(own >= 0)
    places = np.concatenate([known, *(pair[0] for pair in pairs)])
    chosen = np.concatenate([own[known], *(pair[1] for pair in pairs)])
    sizes = np.concatenate([np.zeros(known.size, np.int64), *(pair[2] for pair in pairs)])
    codes, index = np.unique(places * candidates + chosen, return_inverse=True)
    gains = np.zeros(codes.size, np.int64)
    np.add.at(gains, index, sizes)
    places, chosen = np.divmod(codes, candidates)
    # Whole numbers that floats hold exactly: where costs are rounded, SciPy's search may go round in circles.
    unit = max(int(np.gcd.reduce(gains)), int(gains.max(initial=0)) * (own.size + 1) >> 51, 1)
    weights = gains // unit * (own.size + 1) + (own[places] == chosen)
    stand_in_places = own.size + np.arange(candidates)
    stand_in_candidates = candidates + np.arange(own.size)
    rows = np.concatenate([places, np.arange(own.size), stand_in_places, own.size + chosen])
    columns = np.concatenate([chosen, stand_in_candidates, np.arange(candidates), candidates + places])
    # A stored zero counts as no edge.
    nothing = np.ones(own.size + candidates + codes.size)
    costs = np.concatenate([-(weights + 1.0), -nothing])
    size = own.size + candidates
    graph: Any = coo_array((costs, (rows, columns)), shape=(size, size)).tocsr()
    matched = min_weight_full_bipartite_matching(graph)[1][: own.size]
    return _without_scarcity(np.where(matched < candidates, matched, -1), candidates, own)


def _without_scarcity(
    answer: NDArray[np.intp], candidates: int, own: NDArray[np.intp] | None = None
) -> NDArray[np.intp]:
    """Give each place that has no candidate its own if that is free, else the first that is."""
    answer = answer.copy()
    free = np.ones(candidates, bool)
    free[answer[answer >= 0]] = False
    if own is not None:
        for place in np.flatnonzero((answer < 0) & (own >= 0)):
            if free[own[place]]:
                answer[place] = own[place]
                free[own[place]] = False
    left = np.flatnonzero(answer < 0)
    answer[left] = np.flatnonzero(free)[: left.size]
    return answer
