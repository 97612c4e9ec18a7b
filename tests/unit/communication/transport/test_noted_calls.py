"""What is written down of calls between devices, and what is said once of the way that they take."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel.communication.protocol import Communicator, UnwrittenCall
from mpiparallel.communication.threads import run_world
from mpiparallel.communication.transport.facts import VARIABLE
from tests.conformance.hidden_arrays.ranks import Rank, gpus_of_their_own, travel_by


@pytest.fixture
def device(tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    with gpus_of_their_own(tmp_path) as patch:
        yield patch


class Listening:
    """A communicator that keeps what is written down."""

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator
        self.told: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._communicator, name)

    def noted(self, operation: str, *details: Any, count: int = 0) -> UnwrittenCall:
        self.told.append((operation, *details, count))
        return UnwrittenCall()


def noted(communicator: Communicator) -> list[tuple[Any, ...]]:
    listening: Any = Listening(communicator)
    rank, own = Rank(listening), communicator.rank
    whole, half = rank.array(np.ones(6, np.float32)), rank.empty(3, np.float32)
    few = rank.array(np.ones(2, np.uint8))
    for call in (
        rank.transport.all_reduce(whole, "max"),
        rank.transport.reduce(whole, 1),
        rank.transport.reduce_scatter(whole, half),
        rank.transport.all_gather(half, whole),
        rank.transport.all_to_all(whole, rank.empty(6, np.float32)),
        rank.transport.broadcast(whole, 1),
        rank.transport.exchange({1 - own: few}, {1 - own: rank.empty(2, np.uint8)}),
    ):
        call.run()
    return list(listening.told)


WORDS = [
    ("all_reduce", "<f4", "max"),
    ("reduce", "<f4", "sum", "root 1"),
    ("reduce_scatter", "<f4", "sum"),
    ("all_gather", "<f4"),
    ("all_to_all", "<f4"),
    ("broadcast", "<f4", "root 1"),
    ("exchange",),
]


@pytest.mark.parametrize("way", ["nccl", "ipc"])
def test_calls_are_written_down_with_the_elements_that_each_member_gives(device: pytest.MonkeyPatch, way: str) -> None:
    travel_by(device, way)
    wanted = [(*words, count) for words, count in zip(WORDS, (6, 6, 6, 3, 6, 6, 0), strict=True)]
    assert run_world(2, noted) == [wanted] * 2


def test_the_way_is_said_once_and_why_it_is_taken(device: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    device.setenv(VARIABLE, "auto")

    def open_twice(communicator: Communicator) -> list[str]:
        return [Rank(communicator).transport.name for _ in range(2)]

    with caplog.at_level(logging.WARNING, "mpiparallel"):
        assert run_world(2, open_twice) == [["nccl", "nccl"]] * 2
    told = [record.getMessage() for record in caplog.records]
    assert told == ["mpiparallel: arrays of GPUs travel by nccl: every rank has a GPU of its own"]
