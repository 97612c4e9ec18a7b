from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise, product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.errors import LayoutError
from mpiparallel.layout.device_matrix import DeviceMatrix, common_refinement, refined_axes

SHAPE = st.lists(st.integers(1, 4), max_size=4).map(tuple)


@given(shape=SHAPE, first_rank=st.integers(0, 5))
def test_ranks_lie_in_row_major_order(shape: tuple[int, ...], first_rank: int) -> None:
    devices = DeviceMatrix(shape, first_rank)
    ranks = np.arange(first_rank, first_rank + devices.size).reshape(shape)
    for place in np.ndindex(shape):
        assert devices.rank_at(place) == ranks[place]
        assert devices.coordinates(int(ranks[place])) == place


@given(shape=SHAPE, first_rank=st.integers(0, 5), data=st.data())
def test_a_group_is_a_slice_along_its_axes(shape: tuple[int, ...], first_rank: int, data: st.DataObject) -> None:
    devices = DeviceMatrix(shape, first_rank)
    ranks = np.arange(first_rank, first_rank + devices.size).reshape(shape)
    axes = data.draw(st.sets(st.sampled_from(range(len(shape))))) if shape else set()
    for place in np.ndindex(shape):
        here = tuple(slice(None) if axis in axes else index for axis, index in enumerate(place))
        assert devices.group(int(ranks[place]), axes) == tuple(np.ravel(ranks[here]))


@given(shape=SHAPE, data=st.data())
def test_given_ranks_lie_in_row_major_order(shape: tuple[int, ...], data: st.DataObject) -> None:
    size = int(np.prod(shape))
    ranks = data.draw(st.lists(st.integers(0, 3 * size), min_size=size, max_size=size, unique=True))
    devices = DeviceMatrix(shape, ranks=tuple(ranks))
    placed = np.reshape(ranks, shape)
    axes = data.draw(st.sets(st.sampled_from(range(len(shape))))) if shape else set()
    assert list(devices.members) == ranks
    assert [rank for rank in range(3 * size + 2) if rank in devices] == sorted(ranks)
    for place in np.ndindex(shape):
        rank = int(placed[place])
        assert devices.rank_at(place) == rank
        assert devices.coordinates(rank) == place
        here = tuple(slice(None) if axis in axes else index for axis, index in enumerate(place))
        assert devices.group(rank, axes) == tuple(sorted(np.ravel(placed[here])))


@given(st.permutations(range(4)), st.integers(0, 3))
def test_ranks_that_only_count_up_are_those_from_the_first(order: list[int], first: int) -> None:
    ranks = tuple(first + one for one in order)
    made, counted = DeviceMatrix((2, 2), ranks=ranks), DeviceMatrix((2, 2), first)
    assert (made == counted) == (hash(made) == hash(counted)) == (order == [0, 1, 2, 3])
    assert made.reshaped((4,)) == DeviceMatrix((4,), ranks=ranks)
    assert replace(made, shape=(4, 1)) == made.reshaped((4, 1))


def test_as_many_ranks_can_be_given_as_there_are_devices() -> None:
    ranks = tuple(reversed(range(40 * 40)))
    assert DeviceMatrix((40, 40), ranks=ranks).rank_at((0, 1)) == 1598


@pytest.mark.parametrize(
    ("ranks", "first_rank"),
    [
        ((0, 1), 0),
        ((0, 1, 2, 2), 0),
        ((0, 1, 2, 3, 3), 0),
        ((0, 1, 2, 3, 4), 0),
        ((3, 2, 1, -1), 0),
        ((3, 2, 1, 0), 1),
    ],
)
def test_ranks_that_do_not_fill_the_matrix_once_are_refused(ranks: tuple[int, ...], first_rank: int) -> None:
    with pytest.raises(LayoutError, match=r"device matrix \(2, 2\), ranks .*give"):
        DeviceMatrix((2, 2), first_rank, ranks)


@pytest.mark.parametrize(
    ("devices", "told"),
    [
        (DeviceMatrix((9,), ranks=tuple(range(9, 0, -1))), "(9,) of ranks 9, 8, 7, 6, 5, 4, 3, 2, ..."),
        (DeviceMatrix((8,), ranks=tuple(range(8, 0, -1))), "(8,) of ranks 8, 7, 6, 5, 4, 3, 2, 1"),
        (DeviceMatrix((1,), 3), "(1,) of ranks 3"),
        (DeviceMatrix((), 3), "() of ranks 3"),
        (DeviceMatrix((2,), 3), "(2,) of ranks 3 to 4"),
    ],
)
def test_a_rank_outside_is_refused_with_the_first_eight_that_are_there(devices: DeviceMatrix, told: str) -> None:
    with pytest.raises(LayoutError, match=f"^{re.escape(f'rank 0 is not in device matrix {told}')}$"):
        devices.coordinates(0)


@pytest.mark.parametrize(
    ("ranks", "told"),
    [
        ((7, 6, 5, 4, 3, 2, 1, 1), "(7, 6, 5, 4, 3, 2, 1, 1)"),
        ((8, 7, 6, 5, 4, 3, 2, 1, 1), "(8, 7, 6, 5, 4, 3, 2, 1)..."),
        ((7, 7), "(7, 7)"),
    ],
)
def test_ranks_that_repeat_are_refused_with_the_first_eight_of_them(ranks: tuple[int, ...], told: str) -> None:
    size = len(ranks)
    said = f"device matrix ({size},), ranks {told}: give {size} distinct ranks from 0"
    with pytest.raises(LayoutError, match=f"^{re.escape(said)}$"):
        DeviceMatrix((size,), ranks=ranks)


@pytest.mark.parametrize(
    ("shape", "finer", "expected"),
    [((2, 3), (2, 3), ((0,), (1,))), ((4, 3), (2, 2, 3), ((0, 1), (2,))), ((1, 6), (3, 2), ((), (0, 1)))],
)
def test_each_axis_is_made_of_the_finer_ones_that_multiply_to_it(
    shape: tuple[int, ...], finer: tuple[int, ...], expected: tuple[tuple[int, ...], ...]
) -> None:
    assert refined_axes(shape, finer) == expected


@pytest.mark.parametrize(("shape", "finer"), [((2,), (4,)), ((4,), (2,)), ((2, 3), (3, 2)), ((2,), ())])
def test_axes_that_do_not_multiply_to_an_axis_are_refused(shape: tuple[int, ...], finer: tuple[int, ...]) -> None:
    with pytest.raises(LayoutError, match=f"^{re.escape(f'device matrix {finer} does not refine {shape}')}$"):
        refined_axes(shape, finer)


@pytest.mark.parametrize("rank", [-1, 2, 7, 9])
def test_a_rank_outside_is_refused_by_name(rank: int) -> None:
    devices = DeviceMatrix((2, 2), 3)
    assert rank not in devices
    with pytest.raises(LayoutError, match=f"rank {rank} is not in .* ranks 3 to 6"):
        devices.coordinates(rank)


def test_a_matrix_contains_its_ranks() -> None:
    assert [rank for rank in range(-2, 12) if rank in DeviceMatrix((2, 2), 3)] == [3, 4, 5, 6]


@pytest.mark.parametrize(("shape", "first_rank"), [((2, 0), 0), ((-1,), 0), ((2,), -1)])
def test_a_matrix_without_devices_or_below_rank_0_is_refused(shape: tuple[int, ...], first_rank: int) -> None:
    with pytest.raises(LayoutError, match="device matrix"):
        DeviceMatrix(shape, first_rank)


def merges_to(fine: tuple[int, ...], coarse: tuple[int, ...]) -> bool:
    ends = {prod(fine[:stop]) for stop in range(len(fine) + 1)}
    return prod(fine) == prod(coarse) and all(prod(coarse[:stop]) in ends for stop in range(len(coarse)))


@given(first=SHAPE, second=SHAPE)
def test_the_common_refinement_merges_to_both_and_is_the_coarsest(
    first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    found = common_refinement(first, second)
    if found is None:
        ends = sorted({prod(shape[:stop]) for shape in (first, second) for stop in range(len(shape) + 1)})
        assert prod(first) != prod(second) or any(high % low for low, high in pairwise(ends))
        return
    assert merges_to(found, first)
    assert merges_to(found, second)
    for axis in range(len(found) - 1):
        coarser = (*found[:axis], found[axis] * found[axis + 1], *found[axis + 2 :])
        assert not (merges_to(coarser, first) and merges_to(coarser, second))


@pytest.mark.parametrize(("first", "second"), list(product([(2,), (3,)], [(4,), (2, 3), ()])))
def test_matrices_of_unlike_sizes_have_no_common_refinement(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    assert common_refinement(first, second) is None


@pytest.mark.parametrize(("first", "second"), [((2, 3), (3, 2)), ((3, 2, 2), (4, 3)), ((2, 2, 3), (2, 3, 2))])
def test_matrices_whose_axes_end_across_each_other_have_no_common_refinement(
    first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    assert common_refinement(first, second) is None
    assert common_refinement(second, first) is None
