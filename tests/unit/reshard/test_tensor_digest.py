"""The digest of a tensor: the sum of its elements' bits, each weighed by a random number of its place."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ReshardError
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.tensor_digest import changed, digests, host_digest

MODULUS = 1 << 64


def split_mix(seed: int) -> int:
    """Return the first number that SplitMix64 draws from a seed, as Steele, Lea and Flood publish it."""
    bits = (seed + 0x9E3779B97F4A7C15) % MODULUS
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 % MODULUS
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB % MODULUS
    return bits ^ bits >> 31


def expected(whole: Any, box: Box) -> int:
    """Return the sum over the words of ``box``, one by one, in whole numbers of Python."""
    total = 0
    itemsize = whole.dtype.itemsize
    width = itemsize if itemsize in (1, 2, 4, 8) else 1
    for place in np.ndindex(whole.shape):
        if all(start <= index < stop for start, index, stop in zip(box.start, place, box.stop, strict=True)):
            index = int(np.ravel_multi_index(place, whole.shape)) if place else 0
            words = np.frombuffer(whole[(*place, ...)].tobytes(), f"u{width}").tolist()
            for number, word in enumerate(words):
                total += word * (split_mix(index * len(words) + number) | 1)
    return total % MODULUS


def test_the_random_numbers_are_those_that_others_draw() -> None:
    # The first number of seed 0, as published with the generator.
    assert split_mix(0) == 0xE220A8397B1DCDAF


@pytest.mark.parametrize("scratch", [1, 256, 1024, 1 << 20])
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c16", "S3", "?", "M8[s]"])
def test_the_digest_of_a_part_weighs_each_element_by_its_place_in_the_whole(dtype: str, scratch: int) -> None:
    whole = np.random.default_rng(7).integers(0, 100, (3, 4, 2)).astype("i8").astype(dtype)
    for box in (
        Box((0, 0, 0), (3, 4, 2)),
        Box((1, 1, 0), (3, 3, 2)),
        Box((2, 3, 1), (3, 4, 2)),
        Box((1, 2, 0), (1, 4, 2)),
    ):
        part = whole[(*box.within(Box.whole(whole.shape)), ...)]
        assert host_digest(part, box, whole.shape, scratch) == expected(whole, box)
        assert host_digest(np.asfortranarray(part), box, whole.shape) == expected(whole, box)


def test_a_number_alone_and_an_array_longer_than_a_portion_have_digests() -> None:
    assert host_digest(np.array(5, np.uint8), Box((), ()), ()) == 5 * (split_mix(0) | 1) % MODULUS
    long = np.zeros(40000, np.uint8)
    long[[0, 32767, 32768, 39999]] = 1
    wanted = sum(split_mix(place) | 1 for place in (0, 32767, 32768, 39999)) % MODULUS
    assert host_digest(long, Box((0,), (40000,)), (40000,)) == wanted


def test_a_digest_is_made_in_the_scratch_memory_that_it_is_given() -> None:
    part = np.ones(4096, np.uint8)
    tracemalloc.start()
    try:
        host_digest(part, Box((0,), (4096,)), (4096,), 4096)
        assert tracemalloc.get_traced_memory()[1] < 32768
    finally:
        tracemalloc.stop()


HALVES = Layout((6,), DeviceMatrix((2,), 1), ((0,),))
COPIES = Layout((6,), DeviceMatrix((3,)), ((),))
MIXED = Layout((6,), DeviceMatrix((3, 1)), ((1,),))


def of_ranks(layouts: Mapping[str, Layout], wrong: int | None = None) -> list[dict[str, int] | str]:
    whole = np.arange(6, dtype=np.int32)

    def digest(communicator: Communicator) -> dict[str, int] | str:
        rank = communicator.rank
        arrays = {
            name: whole[layout.box(rank).within(Box.whole((6,)))] + (rank == wrong)
            for name, layout in layouts.items()
            if rank in layout.devices
        }
        try:
            return digests(arrays, layouts, communicator)
        except ReshardError as error:
            return str(error)

    return run_world(3, digest)


def test_all_ranks_know_the_digest_of_the_whole_whoever_holds_which_part() -> None:
    value = expected(np.arange(6, dtype=np.int32), Box.whole((6,)))
    wanted = {"copies": value, "halves": value, "mixed": value}
    assert of_ranks({"mixed": MIXED, "copies": COPIES, "halves": HALVES}) == [wanted] * 3
    assert of_ranks({}) == [{}] * 3


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_a_copy_that_differs_is_told_on_all_ranks_by_the_first_name(wrong: int) -> None:
    said = of_ranks({"b": COPIES, "a": HALVES, "c": COPIES}, wrong)
    assert said == ["b: its 3 replicas are not equal; what is moved must have one value on all of them"] * 3


def test_tensors_whose_digests_differ_are_named_in_order() -> None:
    assert changed({"b": 1, "a": 2, "c": 3}, {"a": 3, "b": 0, "c": 3}) == ["a", "b"]
    assert changed({}, {"a": 3}) == []
