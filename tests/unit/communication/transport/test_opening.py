"""The way of a group is found out once, and what carries its calls out is kept with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.communication.transport.facts import VARIABLE
from mpiparallel.communication.transport.opening import open_transport
from mpiparallel.communication.transport.staged import PinnedSlots
from tests.conformance.hidden_arrays.ranks import SMALL_SLOT, Rank, gpus_of_their_own, travel_by

WAYS = ("staging", "nccl", "ipc", "mpi")


@pytest.fixture
def device(tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    with gpus_of_their_own(tmp_path) as patch:
        yield patch


def opened_twice(communicator: Communicator, patch: pytest.MonkeyPatch) -> tuple[list[str], bool]:
    first = Rank(communicator).transport
    communicator.barrier()
    patch.setenv(VARIABLE, "staging" if first.name != "staging" else "mpi")
    communicator.barrier()
    second = Rank(communicator).transport
    return [first.name, second.name], getattr(first, "group", None) is getattr(second, "group", None)


@pytest.mark.parametrize("way", WAYS)
def test_a_group_keeps_its_way_whatever_is_asked_for_later(device: pytest.MonkeyPatch, way: str) -> None:
    travel_by(device, way)
    assert run_world(2, opened_twice, device) == [([way, way], True)] * 2


def of_groups(communicator: Communicator) -> list[bool]:
    world = Rank(communicator)
    pair = communicator.group((0, 1) if communicator.rank < 2 else (2, 3))
    inner = open_transport(communicator, pair, world.backend, PinnedSlots(SMALL_SLOT))
    group = getattr(inner, "group", None)
    array = world.array(np.full(3, 1.0 + communicator.rank, np.float32))
    inner.all_reduce(array).run()
    total = 3.0 if communicator.rank < 2 else 7.0
    return [
        inner.communicator is pair,
        inner.name == world.transport.name,
        world.backend.to_host(array).tolist() == [total] * 3,
        group is None or group is not world.transport.group,
        # The host looks after the calls of all groups together.
        inner.graph_calls() is world.transport.graph_calls(),
    ]


@pytest.mark.parametrize("way", WAYS)
def test_a_group_of_some_ranks_goes_the_same_way_by_itself(device: pytest.MonkeyPatch, way: str) -> None:
    travel_by(device, way)
    assert run_world(4, of_groups) == [[True] * 5] * 4


def graph_calls(communicator: Communicator) -> bool:
    rank = Rank(communicator)
    calls = rank.transport.graph_calls()
    return calls is not None and calls is communicator.kept["in_flight"]


def test_only_calls_of_nccl_may_be_part_of_a_graph(device: pytest.MonkeyPatch) -> None:
    for way in WAYS:
        travel_by(device, way)
        assert run_world(2, graph_calls) == [way == "nccl"] * 2


def test_a_rank_alone_finds_out_no_way(device: pytest.MonkeyPatch) -> None:
    travel_by(device, "nccl")

    def alone(communicator: Communicator) -> tuple[str, bool]:
        return Rank(communicator).transport.name, "way" in communicator.kept

    assert run_world(1, alone) == [("staging", False)]
