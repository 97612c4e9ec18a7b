from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.layout.cut import Cut


def truth(extent: int, outer: int, shards: int) -> list[list[int]]:
    """Return the elements of each part, cut by NumPy alone."""
    return [list(shard) for part in np.array_split(np.arange(extent), outer) for shard in np.array_split(part, shards)]


@given(st.integers(0, 40), st.integers(1, 9), st.integers(1, 9), st.data())
def test_parts_between_are_those_that_numpy_finds_there(
    extent: int, outer: int, shards: int, data: st.DataObject
) -> None:
    cut, elements = Cut(outer * shards, shards), truth(extent, outer, shards)
    start, stop = sorted(data.draw(st.tuples(st.integers(0, extent), st.integers(0, extent))))
    shared = [(part, [one for one in held if start <= one < stop]) for part, held in enumerate(elements)]
    expected = [(part, held[0], held[-1] + 1) for part, held in shared if held]
    assert list(zip(*cut.pieces(extent, start, stop), strict=True)) == expected
    assert list(cut.between(extent, start, stop)) == [part for part, _, _ in expected]
    assert [range(*cut.bounds(extent, part)) for part in range(cut.parts)] == [
        range(held[0], held[-1] + 1) if held else range(0) for held in elements
    ]


@pytest.mark.parametrize(
    ("ends", "expected"),
    [((0, 9), [(0, 0, 5), (1, 3, 6), (3, 8, 9)]), ((5, 8), [(1, 5, 6)]), ((6, 8), []), ((4, 4), [])],
)
def test_given_ranges_are_asked_one_by_one(ends: tuple[int, int], expected: list[tuple[int, int, int]]) -> None:
    cut = Cut(4, given=((0, 5), (3, 6), (4, 4), (8, 9)))
    assert list(zip(*cut.pieces(9, *ends), strict=True)) == expected
    assert list(cut.between(9, *ends)) == [part for part, _, _ in expected]


def test_every_range_of_short_dims_is_shared_with_the_parts_that_numpy_finds_there() -> None:
    for extent, outer, shards in product((3, 5, 6), (2, 3), (2, 3, 4)):
        cut, elements = Cut(outer * shards, shards), truth(extent, outer, shards)
        for start, stop in combinations(range(extent + 1), 2):
            expected = [part for part, held in enumerate(elements) if any(start <= one < stop for one in held)]
            assert list(cut.between(extent, start, stop)) == cut.pieces(extent, start, stop)[0] == expected


@pytest.mark.parametrize(
    ("cut", "extent", "ends", "expected"),
    [
        (Cut(4), 10, (2, 7), range(3)),
        (Cut(8), 4, (1, 4), range(1, 4)),
        (Cut(6, shards=2), 12, (3, 9), range(1, 5)),
        # The four shards of the first half have three elements, so none of the first three is empty.
        (Cut(8, shards=4), 6, (0, 3), range(3)),
        (Cut(8, shards=4), 6, (2, 2), range(0)),
    ],
)
def test_parts_of_which_none_in_between_is_empty_are_a_range(
    cut: Cut, extent: int, ends: tuple[int, int], expected: range
) -> None:
    assert cut.between(extent, *ends) == expected
