"""Bytes by pairs of ranks against a Counter."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from mpiparallel.errors import ReshardError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.forecast import pair_bytes
from mpiparallel.reshard.forecast.pair_bytes import PairBytes
from mpiparallel.reshard.forecast.part_overlaps import part_overlaps


@pytest.mark.parametrize("merged_at", [1 << 24, 400])
@pytest.mark.parametrize("count", [7, 1 << 13, 1 << 16, (1 << 16) + 1, 100_000])
def test_bytes_of_pairs_are_summed_for_any_number_of_ranks(count: int, merged_at: int, monkeypatch) -> None:
    monkeypatch.setattr(pair_bytes, "_ENTRIES", merged_at)
    random, pairs = np.random.default_rng(count), PairBytes(count)
    places = np.unique([0, 1, count // 2, *random.integers(0, count, 20), count - 1])
    wanted: Counter[tuple[int, int]] = Counter()
    for _ in range(3):
        givers, takers = random.choice(places, (2, 300))
        sizes = random.integers(1, 100, 300)
        pairs.add(givers, takers, sizes)
        for giver, taker, size in zip(givers.tolist(), takers.tolist(), sizes.tolist(), strict=True):
            wanted[giver, taker] += size
    found = [column.tolist() for column in pairs.sums()]
    assert list(zip(*found, strict=True)) == [(*pair, wanted[pair]) for pair in sorted(wanted)]


def test_more_pairs_than_memory_is_kept_for_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(pair_bytes, "_MOST_PAIRS", 3)
    pairs, three = PairBytes(100_000), np.arange(3)
    pairs.add(three, three, three)
    pairs.sums()
    pairs.add(three[:1], three[2:], three[2:])
    with pytest.raises(ReshardError, match="more than 3 pairs of ranks exchange something"):
        pairs.sums()


@pytest.mark.parametrize(
    ("shape", "parts", "wanted"),
    [
        ((), (1, 1), [(0, 0, 1, True)]),
        ((6,), (2, 2), [(0, 0, 3, True), (1, 1, 3, True)]),
        ((6,), (2, 3), [(0, 0, 2, False), (0, 1, 1, False), (1, 1, 1, False), (1, 2, 2, False)]),
    ],
)
def test_overlaps_of_parts_tell_which_are_the_same(shape, parts, wanted) -> None:
    layouts = (Layout(shape, DeviceMatrix((count,)), ((0,),) if shape else ()) for count in parts)
    found = part_overlaps(*layouts)
    columns = (found.source, found.target, found.size, found.same)
    assert [*zip(*(column.tolist() for column in columns), strict=True)] == wanted
