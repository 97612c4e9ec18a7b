"""Ranks agree on the shape of their traffic, also on what none of them has room for."""

from __future__ import annotations

import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ReshardError
from mpiparallel.reshard.executors.traffic_shape import PieceBytes, agree_on_shape
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
