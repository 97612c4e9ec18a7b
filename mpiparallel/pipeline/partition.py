"""Layers in a row cut into parts, so that the slowest part is as fast as can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import inf


def partition(
    times: Sequence[float], ranks: Sequence[int], fits: Callable[[int, int, int], bool] = lambda *_: True
) -> list[int]:
    """Return where each part ends: part k, of one layer or more, is shared by ``ranks[k]``.

    ``fits(k, first, end)`` says whether part k may hold the layers from ``first`` up to ``end``. Of equal cuts it is
    the one whose first parts are shortest; where there is none, nothing is returned.

    >>> partition([1, 1, 1, 1, 4], ranks=[1, 1])
    [4, 5]
    >>> partition([1, 1, 1, 1, 4], ranks=[1, 3])
    [2, 5]
    """
    sums = [0.0, *accumulate(times)]
    slowest: list[list[float]] = [[0.0] + [inf] * len(times)]
    begins: list[list[int]] = []
    for part, count in enumerate(ranks):
        slowest.append([inf] * len(sums))
        begins.append([0] * len(sums))
        for end in range(part + 1, len(sums)):
            for first in range(part, end):
                time = max(slowest[part][first], (sums[end] - sums[first]) / count)
                if time < slowest[part + 1][end] and fits(part, first, end):
                    slowest[part + 1][end], begins[part][end] = time, first
    if slowest[-1][-1] == inf:
        return []
    ends = [len(times)]
    for begin in reversed(begins[1:]):
        ends.append(begin[ends[-1]])
    return ends[::-1]
