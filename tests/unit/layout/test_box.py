from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.errors import LayoutError
from mpiparallel.layout.box import Box, part_at, part_bounds

BOUND = st.tuples(st.integers(0, 6), st.integers(0, 6)).map(lambda pair: (min(pair), max(pair)))


def box_of(bounds: list[tuple[int, int]]) -> Box:
    return Box(tuple(start for start, _ in bounds), tuple(stop for _, stop in bounds))


def elements(box: Box) -> set[tuple[int, ...]]:
    mask = np.zeros((6,) * len(box.start), bool)
    mask[(*box.within(Box.whole(mask.shape)), ...)] = True
    return set(map(tuple, np.argwhere(mask).tolist()))


BOX_PAIR = st.integers(0, 3).flatmap(lambda dims: st.tuples(*[st.lists(BOUND, min_size=dims, max_size=dims)] * 2))


@given(extent=st.integers(0, 40), parts=st.integers(1, 12))
def test_part_bounds_are_the_sizes_of_array_split(extent: int, parts: int) -> None:
    expected = [(int(part[0]), int(part[-1]) + 1) for part in np.array_split(np.arange(extent), parts) if part.size]
    bounds = [part_bounds(extent, parts, index) for index in range(parts)]
    assert [(start, stop) for start, stop in bounds if start < stop] == expected
    assert all(start == stop == extent for start, stop in bounds[len(expected) :])


@given(extent=st.integers(1, 40), parts=st.integers(1, 12))
def test_part_at_inverts_part_bounds(extent: int, parts: int) -> None:
    for element in range(extent):
        start, stop = part_bounds(extent, parts, part_at(extent, parts, element))
        assert start <= element < stop


@given(pair=BOX_PAIR)
def test_box_algebra_is_that_of_element_sets(pair: tuple[list[tuple[int, int]], list[tuple[int, int]]]) -> None:
    first, second = map(box_of, pair)
    common = first.intersection(second)
    assert (elements(common) if common else set()) == elements(first) & elements(second)
    assert first.contains(second) == (elements(second) <= elements(first))
    assert first.size == len(elements(first))
    assert first.empty == (not elements(first))


@given(pair=BOX_PAIR)
def test_within_selects_the_box_from_an_array_of_the_outer_box(
    pair: tuple[list[tuple[int, int]], list[tuple[int, int]]],
) -> None:
    inner, outer = map(box_of, pair)
    common = inner.intersection(outer)
    if common is None:
        return
    whole = np.arange(6 ** len(outer.start)).reshape((6,) * len(outer.start))
    everything = Box.whole(whole.shape)
    local = whole[(*outer.within(everything), ...)]
    assert np.array_equal(local[(*common.within(outer), ...)], whole[(*common.within(everything), ...)])


@pytest.mark.parametrize(("start", "stop"), [((0, 3), (4, 2)), ((0,), (1, 2)), ((), (1,))])
def test_a_box_that_is_none_is_refused(start: tuple[int, ...], stop: tuple[int, ...]) -> None:
    with pytest.raises(LayoutError, match="is not one"):
        Box(start, stop)


def test_a_box_without_dims_holds_one_element() -> None:
    assert Box((), ()).size == 1
    assert not Box((), ()).empty
    assert Box((), ()).intersection(Box((), ())) == Box((), ())
