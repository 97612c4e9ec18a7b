"""Collectives as they are measured: of about the bytes that are asked for, among neighbours on a host."""

from __future__ import annotations

import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.search.machine.collective_kernels import collective_kernel
from mpiparallel.search.machine.machine import COLLECTIVES


def sizes(kind: str, ranks: int, size: int) -> list[int]:
    """What each of four ranks is told that it moves; the collective runs on all of them."""

    def job(communicator: Communicator) -> int:
        kernel = collective_kernel(communicator, kind, ranks, size)
        kernel.run()
        return kernel.size

    return run_world(4, job)


@pytest.mark.parametrize("kind", COLLECTIVES)
def test_a_collective_of_a_whole_host_moves_the_bytes_that_are_asked_for(kind: str) -> None:
    # A rank that exchanges keeps its own quarter of what it has.
    assert sizes(kind, 4, 4096) == [3 * 1024 if kind == "exchange" else 4096] * 4


@pytest.mark.parametrize(
    ("kind", "ranks", "wanted"),
    [
        # Sixteen rows of one number for each rank.
        ("reduce", 2, 16 * 2 * 4),
        ("gather", 4, 16 * 4 * 4),
        ("exchange", 4, 3 * 16 * 4),
    ],
)
@pytest.mark.parametrize("size", [1, 64])
def test_the_smallest_collective_has_a_column_for_each_rank(kind: str, ranks: int, wanted: int, size: int) -> None:
    assert sizes(kind, ranks, size) == [wanted] * 4


def test_what_is_no_whole_number_of_columns_is_a_little_less() -> None:
    assert sizes("reduce", 2, 4096 + 127) == [4096] * 4
    assert sizes("reduce", 2, 4096 + 128) == [4096 + 128] * 4
