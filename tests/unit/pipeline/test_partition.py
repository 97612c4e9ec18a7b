"""Layers cut into parts: no cut of all that there are has a faster slowest part."""

from __future__ import annotations

import random
from itertools import combinations, pairwise

import pytest

from mpiparallel.pipeline.partition import partition


def slowest(times: list[int], ranks: list[int], ends: tuple[int, ...]) -> float:
    cuts = pairwise([0, *ends])
    return max(sum(times[first:end]) / count for (first, end), count in zip(cuts, ranks, strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_the_slowest_part_is_as_fast_as_in_the_best_of_all_cuts_that_are_allowed(seed: int) -> None:
    draw = random.Random(seed)
    times = [draw.randint(0, 9) for _ in range(draw.randint(3, 7))]
    ranks = [draw.randint(1, 3) for _ in range(draw.randint(1, 3))]
    refused = {(draw.randrange(3), draw.randrange(7), draw.randint(1, 7)) for _ in range(draw.randrange(12))}
    every = [(*inner, len(times)) for inner in combinations(range(1, len(times)), len(ranks) - 1)]
    allowed = [
        ends for ends in every if not any((part, *cut) in refused for part, cut in enumerate(pairwise([0, *ends])))
    ]
    found = partition(times, ranks, lambda *cut: cut not in refused)
    assert bool(found) == bool(allowed)
    if allowed:
        assert tuple(found) in allowed
        assert slowest(times, ranks, tuple(found)) == min(slowest(times, ranks, ends) for ends in allowed)


@pytest.mark.parametrize(
    ("times", "ranks", "ends"),
    [
        ([3], [1], [1]),
        ([1, 1, 1], [1, 1], [1, 3]),
        ([0, 0, 4], [1, 1], [1, 3]),
        ([1, 2, 3, 4], [1, 1, 1, 1], [1, 2, 3, 4]),
        # More parts than layers.
        ([1, 2], [1, 1, 1], []),
    ],
)
def test_of_equal_cuts_the_first_parts_are_shortest_and_where_there_is_none_nothing_is_returned(
    times: list[float], ranks: list[int], ends: list[int]
) -> None:
    assert partition(times, ranks) == ends
