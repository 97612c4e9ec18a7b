"""Relabeling: other ranks for the places of a target, so that more bytes stay where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ReshardError
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.forecast.part_overlaps import Integers
from mpiparallel.reshard.forecast.rank_tables import RankTables
from mpiparallel.reshard.forecast.reduced_layout_pair import check_sizes
from mpiparallel.reshard.planning.layout_digest import LayoutPair
from mpiparallel.reshard.planning.plan import check_pair
from mpiparallel.reshard.relabeling.assignment import assign
from mpiparallel.reshard.relabeling.volumes import Volumes


@dataclass(frozen=True)
class Relabeling:
    """The ranks that a target's places get: ``ranks[n]`` instead of the ``n``-th of ``places``, the target's own ranks.

    ``kept`` are the bytes that then stay on their rank, ``kept_before`` those that stay without it, of ``total`` that
    the target's ranks hold. ``ranks`` are the places themselves where relabeling was not worth it.
    """

    places: tuple[int, ...]
    ranks: tuple[int, ...]
    kept: int
    kept_before: int
    total: int

    @property
    def saving(self) -> float:
        """Which share of the bytes that would move stays where it is."""
        return (self.kept - self.kept_before) / max(self.total - self.kept_before, 1)

    def apply(self, layout: Layout) -> Layout:
        """Return a target layout on its new ranks."""
        new = dict(zip(self.places, self.ranks, strict=True))
        return layout.on_ranks([new[rank] for rank in layout.devices.members])


def relabel(
    layouts: Mapping[str, LayoutPair],
    itemsizes: Mapping[str, int] | None = None,
    ranks: Sequence[int] | None = None,
    threshold: float = 0.1,
) -> tuple[int, ...]:
    """Return the new ranks of the target's places, ascending by the rank they had, so that most bytes stay in place.

    Where all targets are on one device matrix of ascending ranks, it is what ``Layout.on_ranks`` takes. ``ranks`` are
    those that may be chosen, by default all of the source and of the target. ``itemsizes`` are bytes an element, 1 by
    default. The answer is the target's own ranks unless it saves more than ``threshold`` of the bytes that else move.
    Among equals more places keep their rank.

    Raises ConfigurationError without SciPy, and ReshardError for ``ranks`` that are too few.

    >>> from mpiparallel.layout.device_matrix import DeviceMatrix
    >>> devices = DeviceMatrix((2, 2))
    >>> source, target = (Layout((8,), devices, (axes,)) for axes in ((0, 1), (1, 0)))
    >>> relabel({"weight": (source, target)})
    (0, 2, 1, 3)
    """
    return find_relabeling(layouts, itemsizes, ranks, threshold).ranks


def find_relabeling(
    layouts: Mapping[str, LayoutPair],
    itemsizes: Mapping[str, int] | None = None,
    ranks: Sequence[int] | None = None,
    threshold: float = 0.1,
) -> Relabeling:
    """Return what ``relabel`` found and what it saves; it raises what ``relabel`` raises."""
    for tensor, pair in layouts.items():
        check_pair(tensor, *pair)
    check_sizes(layouts, itemsizes)
    places = RankTables(target for _, target in layouts.values()).ranks
    candidates = _candidates(layouts, places, ranks)
    volumes = Volumes(layouts, itemsizes, places, candidates)
    own = np.searchsorted(candidates, places)
    at = np.minimum(own, candidates.size - 1)
    own = np.where(candidates[at] == places, at, -1) if places.size else own
    answer = assign(volumes, own, {target.devices.shape for _, target in layouts.values()})
    kept, kept_before = volumes.kept(answer), volumes.kept(own)
    # Places whose rank may not be taken have to move, however little that saves.
    if (own >= 0).all() and kept - kept_before <= threshold * (volumes.total - kept_before):
        answer, kept = own, kept_before
    return Relabeling(tuple(places.tolist()), tuple(candidates[answer].tolist()), kept, kept_before, volumes.total)


def _candidates(layouts: Mapping[str, LayoutPair], places: Integers, ranks: Sequence[int] | None) -> Integers:
    if ranks is None:
        return RankTables(layout for pair in layouts.values() for layout in pair).ranks
    candidates = np.unique(np.asarray(ranks, np.int64))
    if candidates.size != len(ranks) or candidates.size < places.size or (candidates < 0).any():
        raise ReshardError(
            f"ranks {list(ranks)[:8]} to choose from: the target has {places.size} places; give at least as many "
            "distinct ranks from 0"
        )
    return candidates
