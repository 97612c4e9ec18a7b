"""Checksums of pieces, whole or in portions: those that xxHash makes of the bytes in C order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xxhash

from mpiparallel.reshard.bound_plan import PeerPieces
from mpiparallel.reshard.checksums import Checksummer, carry_out, windows

WHOLE = np.arange(96, dtype=np.int32).reshape(4, 3, 8)
PIECES = {
    "contiguous": WHOLE,
    "rows": WHOLE[:, 1],
    "halves of rows": WHOLE[:, :, 4:],
    "every second": WHOLE[::2, :, ::2],
    "turned": WHOLE.transpose(2, 0, 1),
    "one": WHOLE[1, 2, 3],
}


@pytest.mark.parametrize("scratch", [1, 4, 8, 15, 16, 17, 64, 1000])
@pytest.mark.parametrize("name", PIECES)
def test_the_checksum_is_that_of_the_bytes_in_c_order_whatever_the_portion(name: str, scratch: int) -> None:
    piece = PIECES[name]
    wanted = xxhash.xxh3_64_intdigest(piece.tobytes())
    assert Checksummer(scratch).of([piece]) == wanted
    both: Any = xxhash.xxh3_64_intdigest(piece.tobytes() + WHOLE.tobytes())
    assert Checksummer(scratch).of([piece, WHOLE]) == both


@pytest.mark.parametrize("scratch", [1, 16, 1000])
@pytest.mark.parametrize("into", ["contiguous", "strided"])
@pytest.mark.parametrize("name", PIECES)
def test_what_moves_is_copied_and_its_checksum_is_that_of_what_it_was(name: str, into: str, scratch: int) -> None:
    piece = PIECES[name]
    room = np.zeros((*piece.shape, 2), piece.dtype)
    target = room[..., 1] if into == "strided" else np.zeros_like(piece, order="C")
    assert carry_out(Checksummer(scratch).moving([(target, piece)])) == xxhash.xxh3_64_intdigest(piece.tobytes())
    np.testing.assert_array_equal(target, piece)
    assert not room[..., 0].any()


MIB = 1 << 20


@pytest.mark.parametrize(
    ("lengths", "wanted"),
    [
        ([], []),
        ([1], [(0, 1)]),
        ([1, 2, 3], [(0, 3)]),
        ([1] * 300, [(0, 300)]),
        ([MIB // 2, MIB // 2, 1], [(0, 2), (2, 3)]),
        ([MIB // 2, MIB // 2 - 1, 1, 1], [(0, 3), (3, 4)]),
        ([MIB + 5, MIB, 3, 4], [(0, 1), (1, 2), (2, 4)]),
    ],
)
def test_a_window_ends_with_the_piece_that_fills_a_mebibyte(lengths: list[int], wanted: list[tuple[int, int]]) -> None:
    stream = PeerPieces(0, ("w",) * len(lengths), tuple(np.empty(length, np.uint8) for length in lengths))
    assert [(part.start, part.stop) for part in windows(stream)] == wanted
    assert stream.nbytes == sum(lengths)


def test_an_element_that_is_larger_than_the_portion_has_its_checksum() -> None:
    wide = np.arange(8, dtype=np.complex128)[::2]
    room = np.zeros((4, 2), np.complex128)
    wanted = xxhash.xxh3_64_intdigest(wide.tobytes())
    for scratch in (1, 15):
        assert Checksummer(scratch).of([wide]) == wanted
        assert carry_out(Checksummer(scratch).moving([(room[:, 1], wide)])) == wanted
    assert carry_out([]) == xxhash.xxh3_64_intdigest(b"")
