from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from mpiparallel.reshard.pieces import aligned, byte_view, messages, offsets, run_length, runs


def in_order(views: list[NDArray[Any]]) -> list[Any]:
    return [element for view in views for element in view.reshape(-1).tolist()]


@st.composite
def strided(draw: st.DrawFn) -> NDArray[Any]:
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    size = int(np.prod(shape))
    array = np.arange(2 * size, dtype=draw(st.sampled_from(["i1", "i4", "i8", "c16"]))).reshape((*shape, 2))[..., 0]
    return array.transpose(draw(st.permutations(range(array.ndim))))


@given(piece=strided(), ends=st.tuples(st.integers(0, 700), st.integers(0, 700)))
def test_runs_are_views_of_the_elements_in_c_order(piece: NDArray[Any], ends: tuple[int, int]) -> None:
    start, stop = sorted(min(end, piece.size) for end in ends)
    found = list(runs(piece, start, stop))
    assert in_order(found) == piece.reshape(-1).tolist()[start:stop]
    assert all(np.shares_memory(run, piece) for run in found)


@given(pieces=st.lists(strided(), max_size=6), largest=st.integers(16, 900))
def test_messages_hold_every_element_once_in_order_and_are_no_longer_than_allowed(
    pieces: list[NDArray[Any]], largest: int
) -> None:
    found = list(messages(pieces, largest))
    assert in_order([view for message in found for view in message.views]) == in_order(pieces)
    for message in found:
        *starts, end = offsets(message.views)
        assert end <= aligned(largest)
        assert all(start % view.dtype.alignment == 0 for start, view in zip(starts, message.views, strict=True))


@given(pieces=st.lists(strided(), max_size=6), largest=st.integers(16, 900))
def test_both_ends_cut_alike_whatever_their_strides(pieces: list[NDArray[Any]], largest: int) -> None:
    contiguous = [np.ascontiguousarray(piece).reshape(piece.shape) for piece in pieces]
    cut, cut_again = (
        [(message.pieces, [view.shape for view in message.views]) for message in messages(side, largest)]
        for side in (pieces, contiguous)
    )
    assert cut == cut_again


def test_a_contiguous_piece_of_any_dtype_is_seen_as_bytes_without_a_copy() -> None:
    for dtype in ("?", "f2", "c16", "S3", "V7", "M8[us]"):
        piece = np.zeros((2, 3), dtype)
        assert byte_view(piece).nbytes == piece.nbytes
        assert np.shares_memory(byte_view(piece), piece)


@given(lengths=st.lists(st.integers(0, 100), max_size=20), largest=st.integers(16, 200))
def test_pieces_travel_together_as_long_as_they_fit(lengths: list[int], largest: int) -> None:
    pieces = [np.zeros(length, np.uint8) for length in lengths]
    for message, following in pairwise(messages(pieces, largest)):
        given, first = pieces[message.pieces], pieces[following.pieces][0]
        if all(piece.nbytes <= largest for piece in (*given, first)):
            assert sum(aligned(piece.nbytes) for piece in given) + first.nbytes > largest


WHOLE = np.arange(24, dtype=np.int16).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "piece",
    [WHOLE, WHOLE[:, :, ::2], WHOLE.T, WHOLE[1], WHOLE[0, 0], np.arange(20)[::3]],
    ids=lambda piece: str(piece.shape),
)
def test_any_run_of_elements_is_at_most_two_views_for_each_dim_but_the_last(piece: NDArray[Any]) -> None:
    flat = piece.reshape(-1).tolist()
    for start in range(piece.size + 1):
        for stop in range(piece.size + 1):
            found = list(runs(piece, start, stop))
            assert in_order(found) == flat[start:stop]
            assert len(found) <= 2 * piece.ndim - 1
            assert all(np.shares_memory(run, piece) for run in found)


def test_a_number_alone_is_a_run() -> None:
    number = np.array(7)
    (run,) = runs(number, 0, 1)
    assert run is number
    assert list(runs(number, 0, 0)) == []


def test_no_elements_are_no_run() -> None:
    for start in (0, 1000, 2000):
        assert list(runs(np.arange(2000), start, int(str(start)))) == []


def told(lengths: list[int], largest: int, dtype: str = "u1") -> list[tuple[int, int, list[int]]]:
    """Return of each message the first and the last piece, and how many bytes its views have."""
    pieces = [np.zeros(length, dtype) for length in lengths]
    return [
        (message.pieces.start, message.pieces.stop, [view.nbytes for view in message.views])
        for message in messages(pieces, largest)
    ]


MIB = 1 << 20


@pytest.mark.parametrize(
    ("lengths", "largest", "wanted"),
    [
        ([], 32, []),
        ([32], 32, [(0, 1, [32])]),
        ([10, 16, 1], 32, [(0, 2, [10, 16]), (2, 3, [1])]),
        ([10, 17], 32, [(0, 1, [10]), (1, 2, [17])]),
        ([17, 16], 32, [(0, 1, [17]), (1, 2, [16])]),
        ([32, 16, 16], 32, [(0, 1, [32]), (1, 3, [16, 16])]),
        ([10, 6, 20, 40, 4, 4], 32, [(0, 2, [10, 6]), (2, 3, [20]), (3, 4, [32]), (3, 4, [8]), (4, 6, [4, 4])]),
        ([33, 33], 32, [(0, 1, [32]), (0, 1, [1]), (1, 2, [32]), (1, 2, [1])]),
        ([4, MIB, MIB + 1, 4], 4 * MIB, [(0, 2, [4, MIB]), (2, 3, [MIB + 1]), (3, 4, [4])]),
        ([0, 0], 16, [(0, 2, [0, 0])]),
    ],
)
def test_small_pieces_travel_together_and_large_ones_alone_in_runs(
    lengths: list[int], largest: int, wanted: list[tuple[int, int, list[int]]]
) -> None:
    assert told(lengths, largest) == wanted


def test_an_element_that_is_larger_than_a_message_is_a_message() -> None:
    assert told([2, 1], 8, "c16") == [(0, 1, [16]), (0, 1, [16]), (1, 2, [16])]


@pytest.mark.parametrize(
    ("shape", "most", "wanted"),
    [
        *(
            ((4, 3, 8), most, wanted)
            for most, wanted in ((500, 480), (96, 96), (95, 72), (24, 24), (23, 16), (8, 8), (7, 7))
        ),
        ((5,), 3, 3),
        ((), 1, 1),
    ],
)
def test_runs_are_of_whole_rows_where_these_are_shorter(shape: tuple[int, ...], most: int, wanted: int) -> None:
    assert run_length(np.zeros(shape), most) == wanted


def test_places_are_multiples_of_an_alignment() -> None:
    assert [aligned(length) for length in (0, 1, 15, 16, 17, 32)] == [0, 16, 16, 16, 32, 32]
    assert [aligned(length, 4) for length in (0, 3, 4, 5)] == [0, 4, 4, 8]
    views = [np.zeros(3, "u1"), np.zeros(2, "f8"), np.zeros(1, "i2"), np.zeros(0, "i4")]
    assert offsets(views) == [0, 8, 24, 28, 28]
    assert offsets(views, 16) == [0, 16, 32, 48, 48]
    assert offsets([]) == [0]
