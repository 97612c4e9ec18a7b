"""Sums of the words of memory, against sums that are added up one word after another by Python's integers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.written_kernels.word_sums import BLOCKS, byte_sums, part_sums
from mpiparallel.layout.box import Box

Array = Any
RANDOM = np.random.default_rng(4)
MODULUS = 1 << 64


def weight(place: int) -> int:
    """Return the odd number that SplitMix64, a published generator, makes of a place."""
    bits = (place + 0x9E3779B97F4A7C15) % MODULUS
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 % MODULUS
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB % MODULUS
    return (bits ^ bits >> 31) | 1


def added(words: Iterable[tuple[int, int]]) -> int:
    return sum(word * weight(place) for place, word in words) % MODULUS


def partial(bind: Any, *given: Any) -> int:
    sums = np.zeros(BLOCKS, np.uint64)
    bind(Runtime(), *given, sums)()
    return sum(map(int, sums)) % MODULUS


@pytest.mark.parametrize("start", [0, 1, 4])
@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 8, 64, 70])
def test_bytes_of_a_message_count_as_words_of_four_and_the_last_is_filled_up(size: int, start: int) -> None:
    memory = np.zeros(128, np.uint8)
    first = -memory.ctypes.data % 64 + start
    message = memory[first : first + size]
    message[...] = RANDOM.integers(0, 256, size)
    filled = message.tobytes() + bytes(-size % 4)
    words = enumerate(int.from_bytes(filled[at : at + 4], "little") for at in range(0, len(filled), 4))
    assert partial(byte_sums, message) == added(words)


BOXES = {
    "the whole": ((2, 3, 4), Box((0, 0, 0), (2, 3, 4))),
    "a part": ((4, 5, 6), Box((1, 2, 3), (3, 4, 6))),
    "a part of a row": ((40,), Box((7,), (19,))),
    "no dims": ((), Box((), ())),
    "no elements": ((4, 5), Box((1, 2), (1, 4))),
}


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8", "c16"])
@pytest.mark.parametrize(("shape", "box"), BOXES.values(), ids=BOXES)
def test_elements_of_a_part_count_by_their_places_in_the_whole(shape: tuple[int, ...], box: Box, dtype: str) -> None:
    kind = np.dtype(dtype)
    count = int(np.prod(shape))
    whole = RANDOM.integers(0, 256, count * kind.itemsize).astype(np.uint8).view(kind).reshape(shape)
    places = np.arange(count).reshape(shape)[box.within(Box.whole(shape))].ravel().tolist()
    part = np.ascontiguousarray(whole[box.within(Box.whole(shape))]).reshape(box.shape)
    words = [
        (place * together + within, int.from_bytes(one[within * unit : (within + 1) * unit], "little"))
        for place, one in zip(places, (element.tobytes() for element in part.ravel()), strict=True)
        for unit, together in [(1, kind.itemsize) if kind.itemsize > 8 else (kind.itemsize, 1)]
        for within in range(together)
    ]
    assert partial(part_sums, part, box, shape) == added(words)


def test_two_parts_of_a_tensor_add_up_to_the_whole() -> None:
    whole = RANDOM.normal(size=(4, 6))
    parts = [Box((0, 0), (4, 2)), Box((0, 2), (4, 6))]
    sums = [
        partial(part_sums, np.ascontiguousarray(whole[box.within(Box.whole((4, 6)))]), box, (4, 6)) for box in parts
    ]
    assert sum(sums) % MODULUS == partial(part_sums, whole, Box.whole((4, 6)), (4, 6))
