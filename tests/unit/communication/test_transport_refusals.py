"""What cannot travel between devices is refused on every way with words that say why, and a rank alone needs no way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.communication.transport.opening import open_transport
from mpiparallel.communication.transport.staged import PinnedSlots
from mpiparallel.errors import CommunicationError
from tests.conformance.hidden_arrays.nccl import NcclCommunicator, NcclError
from tests.conformance.hidden_arrays.ranks import Rank, gpus_of_their_own, travel_by


@pytest.fixture
def device(tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    with gpus_of_their_own(tmp_path) as patch:
        yield patch


def multiplied(communicator: Communicator, dtype: Any) -> None:
    rank = Rank(communicator)
    rank.transport.all_reduce(rank.array(np.ones(3, dtype)), "prod").run()


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("way", ["nccl", "ipc", "mpi"])
def test_devices_multiply_no_complex_numbers(device: pytest.MonkeyPatch, way: str, dtype: Any) -> None:
    travel_by(device, way)
    with pytest.raises(CommunicationError, match=f"prod of {np.dtype(dtype)}: devices multiply no complex numbers"):
        run_world(2, multiplied, dtype)


def told_of_lengths(communicator: Communicator, sent: int, received: int) -> str:
    """Return what is said of a message of a member to itself whose lengths differ."""
    rank, own = Rank(communicator), communicator.rank
    with pytest.raises(CommunicationError) as caught:
        rank.transport.exchange({own: rank.empty(sent, np.uint8)}, {own: rank.empty(received, np.uint8)}).run()
    return str(caught.value)


@pytest.mark.parametrize(("sent", "received"), [(8, 4), (4, 8), (0, 8)])
@pytest.mark.parametrize("way", ["nccl", "ipc", "mpi"])
def test_a_message_to_oneself_has_one_length(device: pytest.MonkeyPatch, way: str, sent: int, received: int) -> None:
    travel_by(device, way)
    said = [
        f"exchange: member {one} sends {sent} bytes to member {one}, which expects {received} bytes" for one in (0, 1)
    ]
    assert run_world(2, told_of_lengths, sent, received) == said


def told_of_nccl(communicator: Communicator) -> str:
    with pytest.raises(CommunicationError) as caught:
        Rank(communicator)
    return str(caught.value)


def test_a_member_that_nccl_refuses_is_told_on_all_ranks_with_the_mend(device: pytest.MonkeyPatch) -> None:
    device.setenv("MPIPARALLEL_TRANSPORT", "nccl")
    begin = NcclCommunicator.__init__

    def refuse(self: NcclCommunicator, size: int, identity: bytes, rank: int) -> None:
        if rank == 1:
            raise NcclError("NCCL_ERROR_SYSTEM_ERROR: unhandled system error")
        begin(self, size, identity, rank)

    device.setattr(NcclCommunicator, "__init__", refuse)
    said = (
        "rank 1: NCCL refuses rank 1 of ranks [0, 1, 2]: NCCL_ERROR_SYSTEM_ERROR: unhandled system error; "
        "NCCL_DEBUG=INFO tells more, MPIPARALLEL_TRANSPORT=staging does without NCCL"
    )
    assert run_world(3, told_of_nccl) == [said] * 3


def summed_alone(communicator: Communicator) -> tuple[str, list[float]]:
    rank = Rank(communicator)
    array = rank.array(np.arange(3, dtype=np.float32))
    rank.transport.all_reduce(array).run()
    return rank.transport.name, rank.backend.to_host(array).tolist()


@pytest.mark.parametrize("way", ["nccl", "ipc", "mpi", "staging", "auto"])
def test_a_rank_alone_has_its_sums_whichever_way_is_asked_for(device: pytest.MonkeyPatch, way: str) -> None:
    travel_by(device, way)
    assert run_world(1, summed_alone) == [("staging", [0.0, 1.0, 2.0])]


def exchanged_on_host(communicator: Communicator) -> tuple[str, list[int]]:
    transport = open_transport(communicator, communicator, NumpyBackend(), PinnedSlots())
    other, received = 1 - communicator.rank, np.zeros(3, np.uint8)
    transport.exchange({other: np.full(3, 7 + communicator.rank, np.uint8)}, {other: received}).run()
    return transport.name, received.tolist()


def test_messages_between_arrays_of_the_host_are_exchanged_by_the_communicator() -> None:
    assert run_world(2, exchanged_on_host) == [("host", [8, 8, 8]), ("host", [7, 7, 7])]
