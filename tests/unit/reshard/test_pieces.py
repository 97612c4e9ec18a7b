from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from mpiparallel.reshard.pieces import aligned, byte_view, messages, offsets, runs


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
