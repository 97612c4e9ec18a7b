"""Which tensors move together, and which share a block of memory: as many as fit, in one order on all ranks."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard import memory
from mpiparallel.reshard.waves import waves

MEBIBYTE = 1 << 20
TWO = DeviceMatrix((2,))


def halves(extent: int) -> Layout:
    return Layout((extent,), TWO, ((0,),))


def copies(extent: int) -> Layout:
    return Layout((extent,), TWO, ((),))


@pytest.mark.parametrize(
    ("wave_bytes", "wanted"),
    [
        (1, [["c"], ["a"], ["b"], ["d"]]),
        (8, [["c", "a"], ["b"], ["d"]]),
        (11, [["c", "a"], ["b"], ["d"]]),
        (12, [["c", "a", "b"], ["d"]]),
        (27, [["c", "a", "b"], ["d"]]),
        (28, [["c", "a", "b", "d"]]),
    ],
)
def test_a_wave_takes_tensors_as_long_as_their_targets_fit(wave_bytes: int, wanted: list[list[str]]) -> None:
    # Targets on the fullest rank: 4, 4, 4 and 16 bytes; more than before by 0, 0, -4 and 8.
    pairs = {
        "d": (halves(8), copies(8)),
        "b": (halves(8), halves(8)),
        "c": (copies(4), halves(4)),
        "a": (halves(4), halves(4)),
    }
    assert waves(pairs, {"a": 2, "b": 1, "c": 2, "d": 2}, wave_bytes) == wanted


def test_the_fullest_rank_counts_where_parts_are_not_even() -> None:
    pairs = dict.fromkeys("ab", (copies(5), halves(5)))
    assert waves(pairs, dict.fromkeys("ab", 1), 5) == [["a"], ["b"]]
    assert waves(pairs, dict.fromkeys("ab", 1), 6) == [["a", "b"]]
    assert waves({}, {}, 6) == []


@pytest.mark.parametrize(
    ("mebibytes", "blocks"), [([16, 16, 1], [0, 0, 1]), ([17, 16, 16], [0, 1, 1]), ([40, 1, 1], [0, 1, 1]), ([1], [0])]
)
def test_a_block_of_shared_memory_has_tensors_of_32_mebibytes_or_one_that_is_larger(
    mebibytes: list[int], blocks: list[int]
) -> None:
    layouts = {f"t{number}": copies(size * MEBIBYTE // 2) for number, size in enumerate(mebibytes)}
    dtypes = dict.fromkeys(layouts, np.dtype(np.int16))

    def share(communicator: Communicator) -> tuple[list[int], int]:
        targets = memory.shared_targets(layouts, dtypes, (), communicator)
        return [targets.block_of[name] for name in layouts], len(targets.blocks)

    assert run_world(2, share) == [(blocks, max(blocks) + 1)] * 2


def test_arrays_lie_in_their_block_one_after_the_other_but_those_that_are_kept_or_elsewhere() -> None:
    one = Layout((3,), DeviceMatrix((1,), 1), ((),))
    layouts = {"a": copies(3), "b": one, "c": halves(6), "d": copies(2)}
    dtypes = {"a": np.dtype("i1"), "b": np.dtype("f8"), "c": np.dtype("i2"), "d": np.dtype("f4")}

    def share(communicator: Communicator) -> dict[str, tuple[int, tuple[int, ...], str]]:
        kept = ["c"] if communicator.rank == 1 else []
        targets = memory.shared_targets(layouts, dtypes, kept, communicator)
        (block,) = targets.blocks
        start = block.own.__array_interface__["data"][0]
        return {
            name: (array.__array_interface__["data"][0] - start, array.shape, array.dtype.str[1:])
            for name, array in targets.arrays.items()
        }

    # Each begins at a multiple of 16 bytes.
    assert run_world(2, share) == [
        {"a": (0, (3,), "i1"), "c": (16, (3,), "i2"), "d": (32, (2,), "f4")},
        {"a": (0, (3,), "i1"), "b": (16, (3,), "f8"), "d": (48, (2,), "f4")},
    ]


def test_private_arrays_are_made_for_what_a_rank_holds_by_what_makes_them() -> None:
    one = Layout((3,), DeviceMatrix((1,), 1), ((),))
    layouts, dtypes = {"a": halves(5), "b": one}, {"a": np.dtype("i2"), "b": np.dtype("f8")}
    made: list[object] = []
    targets = memory.private_targets(layouts, dtypes, 0, lambda *asked: made.append(asked))
    assert (made, targets.arrays, targets.blocks, targets.block_of) == ([((3,), np.dtype("i2"))], {"a": None}, [], {})
    found = memory.private_targets(layouts, dtypes, 1).arrays
    assert {name: (array.shape, array.dtype.str[1:]) for name, array in found.items()} == {
        "a": ((2,), "i2"),
        "b": ((3,), "f8"),
    }
