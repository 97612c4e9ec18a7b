from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from mpiparallel.communication.strided_bytes import StridedBytes, joined, strided_bytes_of

SHAPES = st.lists(st.integers(1, 4), min_size=0, max_size=4)


def offsets(piece: StridedBytes) -> NDArray[np.int64]:
    """The addresses of all bytes of a piece in their order."""
    addresses = np.array([piece.address])
    for count, stride in piece.dims:
        addresses = (addresses[:, None] + np.arange(count) * stride).reshape(-1)
    found: NDArray[np.int64] = (addresses[:, None] + np.arange(piece.row)).reshape(-1)
    return found


def bytes_at(array: NDArray[Any], addresses: NDArray[np.int64]) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)[addresses - array.ctypes.data]


@given(SHAPES, st.data())
def test_a_comb_names_the_bytes_of_a_view_in_their_order(shape: list[int], data: st.DataObject) -> None:
    array = np.arange(int(np.prod(shape)) * 2, dtype=np.int16).view(np.uint8).view("V4")[: int(np.prod(shape))]
    whole = array.reshape(shape)
    order = data.draw(st.permutations(range(len(shape))))
    starts = [data.draw(st.integers(0, length - 1)) for length in shape]
    steps = [data.draw(st.integers(1, 2)) for _ in shape]
    cuts = [slice(start, None, step) for start, step in zip(starts, steps, strict=True)]
    view = np.transpose(whole[(*cuts, ...)], order)
    expected = np.ascontiguousarray(view).reshape(-1).view(np.uint8)
    assert_array_equal(bytes_at(array, offsets(strided_bytes_of(view))), expected)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3)), max_size=6))
def test_rows_that_touch_become_one_and_no_byte_changes_its_place(rows: list[tuple[int, int]]) -> None:
    pieces = [StridedBytes(start, length) for start, length in rows]
    found = joined(pieces)
    assert [place for piece in found for place in offsets(piece)] == [
        place for piece in pieces for place in offsets(piece)
    ]
    assert not any(left.address + left.row == right.address for left, right in pairwise(found))


def test_a_whole_array_is_one_row_and_a_column_one_dim() -> None:
    array = np.zeros((6, 5, 4), np.float32)
    assert (strided_bytes_of(array).row, strided_bytes_of(array).dims) == (480, ())
    assert (strided_bytes_of(array[:, 2:4]).row, strided_bytes_of(array[:, 2:4]).dims) == (32, ((6, 80),))
    assert (strided_bytes_of(array[1:2, :, :1]).row, strided_bytes_of(array[1:2, :, :1]).dims) == (4, ((5, 16),))


def test_dims_of_one_are_left_out_wherever_they_are() -> None:
    array = np.zeros((6, 5, 4), np.float32)
    start = array.ctypes.data
    assert strided_bytes_of(array[2:3, 1:3]) == StridedBytes(start + 2 * 80 + 16, 32)
    assert strided_bytes_of(array[1:5:2, 3:4]) == StridedBytes(start + 80 + 48, 16, ((2, 160),))
    assert strided_bytes_of(array[3:4, 1::2, 2:3]) == StridedBytes(start + 240 + 16 + 8, 4, ((2, 32),))
    assert strided_bytes_of(array[0, 0, 0, ...]) == StridedBytes(start, 4)


def test_only_plain_rows_that_touch_are_joined() -> None:
    comb = StridedBytes(8, 4, ((2, 16),))
    assert joined([StridedBytes(0, 8), comb, StridedBytes(12, 4)]) == [StridedBytes(0, 8), comb, StridedBytes(12, 4)]
    assert joined([StridedBytes(0, 8), StridedBytes(8, 2), StridedBytes(11, 1)]) == [
        StridedBytes(0, 10),
        StridedBytes(11, 1),
    ]
    assert joined([]) == []
    # Places in memory are large numbers.
    assert joined([StridedBytes(1 << 40, 8), StridedBytes((1 << 40) + 8, 2)]) == [StridedBytes(1 << 40, 10)]


def test_an_outer_dim_that_follows_the_next_is_one_with_it() -> None:
    view = np.zeros((2, 3, 5, 4), np.float32)[:, :, ::4, :2]
    assert (strided_bytes_of(view).row, strided_bytes_of(view).dims) == (8, ((6, 80), (2, 64)))
    apart = np.zeros((3, 4, 5, 4), np.float32)[::2, ::3, ::4, :2]
    assert strided_bytes_of(apart).dims == ((2, 640), (2, 240), (2, 64))
