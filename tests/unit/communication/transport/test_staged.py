"""Arrays of devices go through pinned memory in portions that fill its slots, as few as can be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.communication.transport.staged import SLOT_BYTES, PinnedSlots, Slot
from tests.conformance.hidden_arrays.ranks import SMALL_SLOT, Rank, gpus_of_their_own, travel_by


@pytest.fixture
def device(tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    with gpus_of_their_own(tmp_path) as patch:
        travel_by(patch, "staging")
        yield patch


def test_arrays_are_cut_from_a_slot_one_after_the_other_on_borders_of_64_bytes() -> None:
    memory = np.zeros(400, np.uint8)
    slot = Slot(memory)
    found = [slot.cut((3,), np.float32), slot.cut((), np.int16), slot.cut((2, 8), np.float64), slot.cut((0, 5), "i4")]
    starts = [one.ctypes.data - memory.ctypes.data for one in found]
    assert starts[:3] == [0, 64, 128]
    assert [(one.shape, one.dtype.str[1:]) for one in found] == [
        ((3,), "f4"),
        ((), "i2"),
        ((2, 8), "f8"),
        ((0, 5), "i4"),
    ]
    assert all(np.shares_memory(one, memory) for one in found[:3])
    assert slot.cut((1,), np.uint8).ctypes.data - memory.ctypes.data == 256


def test_the_two_slots_are_made_once_and_others_each_time() -> None:
    made: list[Any] = []

    class Backend:
        def host_array(self, shape: tuple[int, ...], dtype: Any) -> Any:
            made.append((shape, dtype))
            return np.empty(shape, dtype)

    backend: Any = Backend()
    slots = PinnedSlots(100)
    first, second = slots.pair(backend)
    assert [one is other for one, other in zip(slots.pair(backend), (first, second), strict=True)] == [True, True]
    assert not np.shares_memory(first, second)
    assert made == [((100,), np.uint8)] * 2
    assert slots.new(backend) is not first
    assert PinnedSlots().slot_bytes == SLOT_BYTES == 8 << 20


class Counting:
    """A communicator that counts the calls of a method."""

    def __init__(self, communicator: Communicator, name: str) -> None:
        self._communicator = communicator
        self._name = name
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        self.calls += name == self._name
        return getattr(self._communicator, name)


# Of a slot of 1,024 bytes and two ranks 64 bytes are kept for each of six borders.
ROOM = SMALL_SLOT - 64 * 6


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize(
    ("name", "blocks"),
    [("all_reduce", 1), ("broadcast", 1), ("reduce", 1), ("all_gather", 3), ("reduce_scatter", 3), ("all_to_all", 4)],
)
def test_a_portion_has_all_that_a_slot_has_room_for(
    device: pytest.MonkeyPatch, name: str, blocks: int, more: int
) -> None:
    fits = ROOM // (blocks * 4)

    def move(communicator: Communicator) -> int:
        counting: Any = Counting(communicator, name)
        rank = Rank(counting)
        # Its members have told each other of their devices by then.
        counting.calls = 0
        block, whole = (rank.array(np.ones(count * (2 * fits + more), np.float32)) for count in (1, 2))
        arrays = {
            "all_gather": (block, whole),
            "reduce_scatter": (whole, block),
            "all_to_all": (whole, rank.array(np.zeros(2 * (2 * fits + more), np.float32))),
        }.get(name, (block,))
        root = (1,) if name in ("broadcast", "reduce") else ()
        getattr(rank.transport, name)(*arrays, *root).run()
        return int(counting.calls)

    assert run_world(2, move) == [2 + more] * 2


@pytest.mark.parametrize(("length", "portions"), [(1, 1), (ROOM // 4, 1), (ROOM // 4 + 1, 2), (ROOM // 2 + 1, 3)])
def test_the_longest_message_of_any_member_says_how_often_all_exchange(
    device: pytest.MonkeyPatch, length: int, portions: int
) -> None:
    def move(communicator: Communicator) -> tuple[int, list[int]]:
        counting: Any = Counting(communicator, "exchange")
        rank, content = Rank(counting), np.arange(length).astype(np.uint8)
        sends = {1: rank.array(content)} if communicator.rank == 0 else {}
        received = rank.empty(length, np.uint8)
        rank.transport.exchange(sends, {0: received} if communicator.rank == 1 else {}).run()
        return int(counting.calls), rank.backend.to_host(
            received
        ).tolist() if communicator.rank == 1 else content.tolist()

    assert run_world(2, move) == [(portions, np.arange(length).astype(np.uint8).tolist())] * 2
