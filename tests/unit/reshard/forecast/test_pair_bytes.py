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


@pytest.mark.parametrize("count", [0, 3, 100_000])
def test_nothing_goes_between_ranks_of_which_nothing_was_entered(count: int) -> None:
    pairs = PairBytes(count)
    assert [column.tolist() for column in pairs.sums()] == [[], [], []]
    nothing = np.zeros(0, np.int64)
    pairs.add(nothing, nothing, nothing)
    assert [column.tolist() for column in pairs.sums()] == [[], [], []]


@pytest.mark.parametrize("merged_at", [1, 2, 3])
def test_entries_that_were_merged_before_are_merged_again(merged_at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_bytes, "_ENTRIES", merged_at)
    pairs = PairBytes(100_000)
    for size in (1, 10, 100, 1000):
        pairs.add(np.array([99_999, 0]), np.array([0, 99_999]), np.array([size, 2 * size]))
        if size == 10:
            assert [column.tolist() for column in pairs.sums()] == [[0, 99_999], [99_999, 0], [22, 11]]
    assert [column.tolist() for column in pairs.sums()] == [[0, 99_999], [99_999, 0], [2222, 1111]]


def test_as_many_pairs_as_there_is_memory_for_are_told_and_one_more_is_refused_in_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pair_bytes, "_MOST_PAIRS", 2)
    pairs, two = PairBytes(70_000), np.arange(2)
    for _ in range(2):
        pairs.add(two, two, two + 1)
    assert [column.tolist() for column in pairs.sums()] == [[0, 1], [0, 1], [2, 4]]
    pairs.add(two[:1], two[1:], two[1:])
    with pytest.raises(ReshardError) as caught:
        pairs.sums()
    assert str(caught.value) == (
        "more than 2 pairs of ranks exchange something, too many to count; a target whose cuts are nearer to the "
        "source's needs fewer messages"
    )
