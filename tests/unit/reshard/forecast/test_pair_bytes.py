"""Bytes by pairs of ranks against a Counter."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from mpiparallel.errors import ReshardError
from mpiparallel.reshard.forecast import pair_bytes
from mpiparallel.reshard.forecast.pair_bytes import PairBytes


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
