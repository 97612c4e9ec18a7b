"""Ranks agree on the shape of their traffic, also on what none of them has room for."""

from __future__ import annotations

import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ReshardError
from mpiparallel.reshard.executors.traffic_shape import PieceBytes, TrafficShape, agree_on_shape
from mpiparallel.reshard.pieces import ALIGNMENT

LENGTH = 100 * ALIGNMENT


def traffic(rank: int) -> PieceBytes:
    """Rank 0 sends a piece to each of two others, and rank 3 takes no part."""
    sent = [[LENGTH], [LENGTH]] if rank == 0 else []
    return sent, [[LENGTH]] if rank in (1, 2) else []


def test_scratch_memory_without_room_for_all_peers_of_one_rank_is_refused_on_all() -> None:
    def agree(communicator: Communicator) -> None:
        # Half of it is for what is sent, where each stream may be rounded up.
        with pytest.raises(ReshardError, match=rf"is not enough .*; give at least {4 * ALIGNMENT} bytes for each rank"):
            agree_on_shape(traffic(communicator.rank), communicator, 2 * 2 * ALIGNMENT)

    run_world(4, agree)


def test_the_share_that_moves_at_a_time_is_that_of_the_rank_with_the_least_room() -> None:
    def agree(communicator: Communicator) -> tuple[float, int, int]:
        found = agree_on_shape(traffic(communicator.rank), communicator, 2 * 102 * ALIGNMENT)
        return found.share, found.largest_stream, found.mean_piece

    assert run_world(4, agree) == [(0.5, LENGTH, LENGTH)] * 4


@pytest.mark.parametrize(
    ("shape", "suits"),
    [
        (TrafficShape(1.0, 65536, 1, dense=True), True),
        (TrafficShape(1.0, 0, 0, dense=True), True),
        (TrafficShape(1.0, 65537, 1, dense=True), False),
        (TrafficShape(0.99, 1, 1, dense=True), False),
        (TrafficShape(1.0, 1, 1, dense=False), False),
    ],
)
def test_one_collective_serves_small_messages_between_most_ranks_that_fit_at_once(
    shape: TrafficShape, suits: bool
) -> None:
    assert shape.suits_all_to_all is suits


@pytest.mark.parametrize(
    ("size", "sends", "receives", "dense"),
    [(5, 2, 2, True), (5, 1, 4, False), (5, 4, 1, False), (4, 2, 2, True), (4, 1, 3, False), (1, 0, 0, True)],
)
def test_traffic_is_dense_where_every_rank_has_messages_for_half_of_the_others(
    size: int, sends: int, receives: int, dense: bool
) -> None:
    def agree(communicator: Communicator) -> bool:
        few = communicator.rank == size - 1
        own: PieceBytes = ([[1]] * (sends if few else 4), [[1]] * (receives if few else 4))
        return agree_on_shape(own, communicator, None).dense

    assert run_world(size, agree) == [dense] * size


def test_the_shape_has_the_longest_stream_and_the_largest_mean_of_any_rank() -> None:
    pieces: list[PieceBytes] = [([[16, 33], [1]], [[5]]), ([], [[160, 17]]), ([[64]], [])]

    def agree(communicator: Communicator) -> TrafficShape:
        return agree_on_shape(pieces[communicator.rank], communicator, None)

    # In multiples of 16 bytes: 16 + 48 and 16 in three pieces, 160 + 32 that arrive, 64 alone.
    assert run_world(3, agree) == [TrafficShape(1.0, 192, 64, dense=False)] * 3
    assert run_world(2, lambda world: agree_on_shape(([], []), world, 4096)) == [TrafficShape(1.0, 0, 0, False)] * 2


@pytest.mark.parametrize(("scratch", "share"), [(2 * 160, 1.0), (2 * 159, (159 - 32) / 160), (2 * 33, 1 / 160)])
def test_a_share_leaves_room_for_each_stream_to_be_rounded_up(scratch: int, share: float) -> None:
    def agree(communicator: Communicator) -> float:
        return agree_on_shape(([[96], [64]], [[16]]), communicator, scratch).share

    assert run_world(1, agree) == [share]


def test_scratch_memory_that_is_too_little_is_told_with_what_is_enough() -> None:
    def agree(communicator: Communicator) -> str:
        with pytest.raises(ReshardError) as caught:
            agree_on_shape(([[96], [64]], [[16]]), communicator, 2 * 32)
        return str(caught.value)

    assert run_world(1, agree) == [
        "scratch_bytes 64 is not enough for a rank that exchanges with so many others; give at least 64 bytes for each "
        "rank, better megabytes"
    ]
