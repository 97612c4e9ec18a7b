"""Ranks on one GPU read each other's memory when it is written, and give it back when nobody reads it any more."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.gpu import shared_block
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.communication.transport import ipc_group
from mpiparallel.communication.transport.ipc_group import IpcGroup
from mpiparallel.errors import CommunicationError
from tests.conformance.hidden_arrays.ipc import BlockError, blocks_left
from tests.conformance.hidden_arrays.ranks import SMALL_SLOT, Rank, gpus_of_their_own, travel_by
from tests.conformance.hidden_arrays.stream import HiddenEvent
from tests.gpu import test_training
from tests.gpu.test_training import NETWORKS, losses


@pytest.fixture
def device(tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    with gpus_of_their_own(tmp_path) as patch:
        travel_by(patch, "ipc")
        yield patch


def summed(communicator: Communicator, is_freed: bool = False) -> list[float]:
    rank = Rank(communicator)
    array = rank.array(np.full(700, 1.0 + communicator.rank, np.float32))
    rank.transport.all_reduce(array).run()
    if is_freed:
        communicator.free()
    return sorted(set(rank.backend.to_host(array).tolist()))


@pytest.mark.parametrize("is_one_process", [False, True])
def test_memory_is_given_back_when_all_have_closed_it(device: pytest.MonkeyPatch, is_one_process: bool) -> None:
    if is_one_process:
        device.setattr(ipc_group, "memory_space", shared_block.memory_space)
    # Other tests leave blocks of ranks that were never let go.
    before = blocks_left()
    assert run_world(3, summed, True) == [[6.0]] * 3
    assert blocks_left() <= before


def test_memory_that_is_given_back_while_others_see_it_is_found(device: pytest.MonkeyPatch) -> None:
    device.setattr(IpcGroup, "abandon", lambda self: None)
    with pytest.raises(BlockError, match="while others see it"):
        run_world(2, summed, True)


def test_a_slot_that_is_read_before_the_device_has_written_it_is_found(device: pytest.MonkeyPatch) -> None:
    device.setattr(HiddenEvent, "synchronize", lambda self: None)
    assert run_world(2, summed) != [[3.0]] * 2


def test_a_slot_that_is_read_before_its_writer_has_come_is_found(device: pytest.MonkeyPatch) -> None:
    has_read = threading.Event()

    def job(communicator: Communicator) -> list[float]:
        rank = Rank(communicator)
        array = rank.array(np.ones(7, np.float32))
        call = rank.transport.all_reduce(array)
        if communicator.rank == 1:
            has_read.wait()
        call.run()
        has_read.set()
        return [float(one) for one in rank.backend.to_host(array)]

    device.setattr(IpcGroup, "meet", lambda self: self._backend.communication.synchronize())
    first, second = run_world(2, job)
    assert np.isnan(first).all()
    assert second == [2.0] * 7


def turns_of(communicator: Communicator) -> tuple[int, float]:
    """Return how many turns a broadcast of three slots full takes, and what arrives."""
    rank = Rank(communicator)
    group, turns = rank.transport.group, []
    take_turn = group.take_turn

    def counted() -> Any:
        turns.append(1)
        return take_turn()

    group.take_turn = counted
    array = rank.array(np.full(3 * SMALL_SLOT // 4, 1.0 + communicator.rank, np.float32))
    rank.transport.broadcast(array, 0).run()
    return len(turns), float(rank.backend.to_host(array).sum())


def test_large_arrays_take_as_many_turns_as_they_have_slots_full(device: pytest.MonkeyPatch) -> None:
    assert run_world(2, turns_of) == [(3, 768.0)] * 2


def test_memory_that_cuda_does_not_share_is_told_on_all_ranks_with_the_mend(device: pytest.MonkeyPatch) -> None:
    def refuse(name: bytes) -> int:
        raise RuntimeError("cudaErrorInvalidResourceHandle: invalid resource handle")

    device.setattr(sys.modules["cupy"].cuda.runtime, "ipcOpenMemHandle", refuse)
    with pytest.raises(CommunicationError, match=r"ipcOpenMemHandle.*MPIPARALLEL_TRANSPORT=staging does without"):
        run_world(2, summed)


def test_a_rank_that_fails_amid_calls_is_named_to_the_others(device: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def job(communicator: Communicator) -> None:
        rank = Rank(communicator)
        call = rank.transport.all_reduce(rank.array(np.ones(3, np.float32)))
        call.run()
        if communicator.rank == 1:
            raise OSError("its card has fallen off the bus")
        try:
            call.run()
        except CommunicationError as error:
            seen.append(str(error))
            raise

    with pytest.raises((OSError, CommunicationError)):
        run_world(3, job)
    assert len(seen) == 2
    assert all("rank 1" in one for one in seen)


def test_a_block_that_others_may_still_see_stays_where_one_of_them_has_died(device: pytest.MonkeyPatch) -> None:
    def job(communicator: Communicator) -> None:
        rank = Rank(communicator)
        rank.transport.all_reduce(rank.array(np.ones(3, np.float32))).run()
        if communicator.rank == 1:
            raise OSError("its card has fallen off the bus")
        rank.transport.group.free()

    before = blocks_left()
    with pytest.raises(OSError, match="fallen off the bus"):
        run_world(3, job)
    # The blocks of all three stay, and what the dead one sees of two; the others have closed what they had opened.
    assert blocks_left() - before == 3 + 2


def test_a_transformer_trains_on_one_gpu_as_on_the_host(device: pytest.MonkeyPatch) -> None:
    device.setenv("MPIPARALLEL_TRANSPORT", "auto")
    device.setattr(test_training, "STEPS", 2)
    turns: list[int] = []
    take_turn = IpcGroup.take_turn

    def counted(self: IpcGroup) -> Any:
        turns.append(1)
        return take_turn(self)

    device.setattr(IpcGroup, "take_turn", counted)
    (wanted,) = run_world(1, losses, "Transformer", "CPU", False)
    for found in run_world(2, losses, "Transformer", "GPU", True):
        np.testing.assert_allclose(found, wanted, rtol=NETWORKS["Transformer"][2])
    assert turns
