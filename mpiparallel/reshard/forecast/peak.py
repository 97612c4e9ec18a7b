"""The most memory that ranks need while a state is moved in waves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from mpiparallel.reshard.forecast.part_overlaps import Integers
from mpiparallel.reshard.forecast.rank_tables import Holding, RankTables
from mpiparallel.reshard.forecast.reduced_layout_pair import ReducedLayoutPair, gather_reduced_pairs
from mpiparallel.reshard.planning.layout_digest import LayoutPair
from mpiparallel.reshard.waves import waves


def bounded_peak(
    layouts: Mapping[str, LayoutPair], itemsizes: Mapping[str, int], wave_bytes: int = 64 << 20
) -> Integers:
    """Return the bytes of the state that each rank holds at most in bounded mode, without scratch.

    One entry for each rank of the layouts, ascending. The tensors go in the waves of `waves.waves`. A rank holds the
    new arrays of a wave besides the old ones until the wave is done.
    """
    tables = RankTables(layout for pair in layouts.values() for layout in pair)
    holdings: dict[ReducedLayoutPair, Holding] = {}

    def weighed(tensors: Iterable[str]) -> Iterator[tuple[Holding, int]]:
        reduced_pairs = gather_reduced_pairs({tensor: layouts[tensor] for tensor in tensors}, itemsizes)
        for reduced, weights in reduced_pairs.items():
            if reduced not in holdings:
                holdings[reduced] = tables.follow(reduced.source, reduced.target)[0]
            yield holdings[reduced], sum(weights.values())

    held = tables.zeros()
    for holding, weight in weighed(layouts):
        held += weight * holding.before
    peak = held.copy()
    moving = {tensor: pair for tensor, pair in layouts.items() if pair[0] != pair[1]}
    for wave in waves(moving, itemsizes, wave_bytes):
        change, new = tables.zeros(), tables.zeros()
        for holding, weight in weighed(wave):
            change += weight * (holding.after - holding.before)
            new += weight * (holding.after - holding.kept)
        np.maximum(peak, held + new, out=peak)
        held += change
    return peak
