"""What goes wrong between devices is found: faults in the code, planted here, and ranks that die."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.communication.transport import mapped
from mpiparallel.communication.transport.facts import VARIABLE
from mpiparallel.communication.transport.staged import PinnedSlots
from mpiparallel.errors import CommunicationError
from tests.conformance.hidden_arrays.nccl import HostMemoryError, NcclMismatchError
from tests.conformance.hidden_arrays.ranks import Rank, gpus_of_their_own, travel_by
from tests.conformance.hidden_arrays.stream import (
    DEVICE,
    HiddenEvent,
    HiddenStream,
    MissingEventError,
    OverwrittenError,
)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    with gpus_of_their_own(tmp_path) as patch:
        yield patch


def summed(communicator: Communicator, change: Callable[[Rank], Any] = lambda rank: None) -> list[float]:
    rank = Rank(communicator)
    change(rank)
    array = rank.array(np.full(700, 1.0 + communicator.rank, np.float32))
    rank.transport.all_reduce(array).run()
    rank.backend.array_module.add(array, array, out=array)
    return sorted(set(rank.backend.to_host(array).tolist()))


@pytest.mark.parametrize("way", ["staging", "nccl", "ipc"])
def test_a_stream_that_waits_for_no_event_is_found(device: pytest.MonkeyPatch, way: str) -> None:
    travel_by(device, way)
    assert run_world(2, summed) == [[6.0]] * 2
    device.setattr(HiddenStream, "wait_event", lambda self, event: None)
    with pytest.raises(MissingEventError):
        run_world(2, summed)


def test_memory_of_the_host_that_is_given_to_nccl_is_found(device: pytest.MonkeyPatch) -> None:
    device.setenv(VARIABLE, "nccl")

    def change(rank: Rank) -> None:
        host = rank.backend.host_array((700,), np.float32)
        rank.backend.address = lambda array: host.ctypes.data

    with pytest.raises(HostMemoryError):
        run_world(2, summed, change)


CALLS: dict[str, Callable[[Rank, Any], Any]] = {
    "sum": lambda rank, array: rank.transport.all_reduce(array),
    "sum of half": lambda rank, array: rank.transport.all_reduce(array[:350]),
    "maximum": lambda rank, array: rank.transport.all_reduce(array, "max"),
    "broadcast": lambda rank, array: rank.transport.broadcast(array, 0),
    "broadcast of another": lambda rank, array: rank.transport.broadcast(array, 1),
}


def unlike(communicator: Communicator, *calls: str) -> None:
    rank = Rank(communicator)
    CALLS[calls[communicator.rank]](rank, rank.array(np.ones(700, np.float32))).run()


@pytest.mark.parametrize("other", [name for name in CALLS if name != "sum"])
def test_calls_that_differ_between_ranks_are_found_where_only_nccl_sees_them(
    device: pytest.MonkeyPatch, other: str
) -> None:
    device.setenv(VARIABLE, "nccl")
    with pytest.raises(NcclMismatchError):
        run_world(2, unlike, "sum", other)


def test_pinned_memory_that_mpi_reads_before_its_copy_is_there_is_found(device: pytest.MonkeyPatch) -> None:
    device.setenv(VARIABLE, "staging")
    device.setattr(HiddenEvent, "synchronize", lambda self: None)
    assert run_world(2, summed) != [[6.0]] * 2


def test_one_slot_where_two_are_wanted_is_found(device: pytest.MonkeyPatch) -> None:
    device.setenv(VARIABLE, "staging")
    pair = PinnedSlots.pair
    device.setattr(PinnedSlots, "pair", lambda self, backend: pair(self, backend)[:1] * 2)
    with pytest.raises((OverwrittenError, AssertionError)):
        assert run_world(2, summed) == [[6.0]] * 2


def dies_at_the_second(communicator: Communicator) -> None:
    rank = Rank(communicator)
    array = rank.array(np.ones(3, np.float32))
    call = rank.transport.all_reduce(array)
    call.run()
    if communicator.rank == 1:
        rank.transport.group.comm.board.die()
        raise OSError("its card has fallen off the bus")
    call.run()
    rank.backend.array_module.add(array, array, out=array)
    try:
        rank.backend.to_host(array)
    finally:
        assert rank.transport.group.comm.aborted


def test_a_rank_that_dies_amid_a_call_of_nccl_is_named_and_the_call_is_aborted(device: pytest.MonkeyPatch) -> None:
    device.setenv(VARIABLE, "nccl")
    seen: list[str] = []

    def job(communicator: Communicator) -> None:
        try:
            dies_at_the_second(communicator)
        except CommunicationError as error:
            seen.append(str(error))
            raise

    with pytest.raises((OSError, CommunicationError)):
        run_world(3, job)
    assert len(seen) == 2
    assert all("for rank 1, which failed with OSError: its card has fallen off" in one for one in seen)


def told_to_mpi(communicator: Communicator) -> set[int]:
    """Return the members to which MPI is told to send, or from which to receive, by calls that have a part for each."""
    rank, size, seen = Rank(communicator), communicator.size, set[int]()
    original = rank.communicator.exchange

    def watched(*sides: Any) -> None:
        seen.update(*sides)
        original(*sides)

    rank.communicator.exchange = watched
    sent, received = (rank.array(np.full(8 * size, communicator.rank, np.uint8)) for _ in range(2))
    blocks = [{peer: one[8 * peer : 8 * peer + 8] for peer in range(size)} for one in (sent, received)]
    for call in (
        rank.transport.exchange(*blocks),
        rank.transport.all_to_all(sent, received),
        rank.transport.all_gather(sent[:8], received),
    ):
        rank.backend.copy_from_host(np.zeros(8 * size, np.uint8), received)
        call.run()
        assert rank.backend.to_host(received).tolist() == [peer for peer in range(size) for _ in range(8)]
    return seen


def test_what_a_member_sends_to_itself_is_copied_by_the_device_and_not_by_mpis_host(device: pytest.MonkeyPatch) -> None:
    device.setenv(VARIABLE, "mpi")
    device.setattr(mapped, "_MOST", 16)
    assert run_world(3, told_to_mpi) == [{1, 2}, {0, 2}, {0, 1}]


def fails_amid_a_call(communicator: Communicator) -> str:
    rank = Rank(communicator)
    array = rank.array(np.ones(3, np.float32))
    # An illegal address in a kernel: no event comes any more, and to CuPy none has failed.
    DEVICE.fault = 700
    rank.transport.all_reduce(array).run()
    with pytest.raises(CommunicationError) as caught:
        rank.backend.to_host(array)
    assert rank.transport.group.comm.aborted
    communicator.barrier()
    return str(caught.value)


def test_a_device_that_fails_amid_a_call_of_nccl_is_told_and_not_waited_for(device: pytest.MonkeyPatch) -> None:
    device.setenv(VARIABLE, "nccl")
    assert run_world(2, fails_amid_a_call) == ["NCCL between ranks [0, 1]: cudaError 700"] * 2


def test_a_group_whose_calls_have_ended_is_destroyed_and_one_with_calls_under_way_aborted(
    device: pytest.MonkeyPatch,
) -> None:
    device.setenv(VARIABLE, "nccl")

    def job(communicator: Communicator) -> tuple[bool, bool]:
        rank = Rank(communicator)
        group = rank.transport.group
        rank.transport.all_reduce(rank.array(np.ones(3))).run()
        communicator.free()
        return group.comm.destroyed, group.comm.aborted

    assert run_world(2, job) == [(True, False)] * 2
    assert [run_world(2, under_way)] == [[True, None]]


def under_way(communicator: Communicator) -> bool | None:
    rank = Rank(communicator)
    group = rank.transport.group
    if communicator.rank == 1:
        group.comm.board.die()
        return None
    rank.transport.all_reduce(rank.array(np.ones(3))).run()
    communicator.free()
    return bool(group.comm.aborted)


def waits_of(communicator: Communicator) -> list[int]:
    """Return how often the host has waited for the device when MPI is given its memory, call by call."""
    rank, seen = Rank(communicator), []
    for method in ("all_reduce", "start_all_reduce"):
        original = getattr(rank.communicator, method)

        def watched(*given: Any, original: Callable[..., Any] = original) -> Any:
            seen.append(DEVICE.waits - before)
            return original(*given)

        setattr(rank.communicator, method, watched)
    call = rank.transport.all_reduce(rank.array(np.ones(3, np.float32)))
    before = DEVICE.waits
    call.run()
    before = DEVICE.waits
    call.start()()
    return seen


def test_the_host_waits_for_the_device_before_mpi_is_given_its_memory(device: pytest.MonkeyPatch) -> None:
    device.setenv(VARIABLE, "mpi")
    for seen in run_world(2, waits_of):
        # A call that is started on threads is one that blocks.
        assert seen == [1, 1, 1]
