"""Relabeling: other ranks for the places of a target, so that more bytes stay where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpiparallel.errors import ConfigurationError, ReshardError
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.moves import Way, way_of
from mpiparallel.reshard.part_overlaps import Integers, part_overlaps
from mpiparallel.reshard.plan import LayoutPair
from mpiparallel.reshard.rank_tables import Holders, RankTables

# A dense assignment of 2,048 ranks takes 32 MiB for each copy of the volumes, and seconds.
DENSE_RANKS: Final = 2048
# Beyond it even the pairs of ranks that share bytes are too many to weigh one by one.
_MOST_PAIRS: Final = 1 << 24


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
    default. The answer is the target's own ranks unless it saves more than ``threshold`` of the bytes that else move;
    among equals more places keep their rank.

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
    places = RankTables(target for _, target in layouts.values())
    chosen = _candidates(layouts, places.ranks, ranks)
    volumes = _Volumes(layouts, itemsizes or {}, places, chosen)
    own = np.searchsorted(chosen.ranks, places.ranks)
    own[~np.isin(places.ranks, chosen.ranks)] = -1
    answer = _assign(volumes, own) if places.ranks.size else own
    kept, kept_before = volumes.kept(answer), volumes.kept(own)
    total = volumes.total
    free = bool((own < 0).any())
    if not free and kept - kept_before <= threshold * (total - kept_before):
        answer, kept = own, kept_before
    return Relabeling(tuple(places.ranks.tolist()), tuple(chosen.ranks[answer].tolist()), kept, kept_before, total)
