"""Checks all claims on the ranks of one ``mpirun``; each rank says so at its end, as an exit status can be wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import CommunicationError
from tests.conformance.communicator import (
    CLAIMS,
    Run,
    all_to_all_v_moves_uneven_and_empty_blocks,
    messages_of_any_length_cross_without_waiting,
)
from tests.conformance.message_claims import MESSAGE_CLAIMS
from tests.conformance.resharding.exchange_claims import EXCHANGE_CLAIMS
from tests.mpi.communication.death_claims import DEATH_CLAIMS
from tests.mpi.communication.growth_claims import GROWTH_CLAIMS
from tests.mpi.communication.opening_claims import OPENING_CLAIMS
from tests.mpi.communication.released_message_claims import RELEASE_CLAIMS, a_message_may_outlive_mpi

Claim = Callable[[Run], None]

# Smaller than most arrays of the claims, and no multiple of their items: what is longer travels in pieces.
SMALL_MESSAGE = 19

ALL_CLAIMS = CLAIMS + EXCHANGE_CLAIMS + MESSAGE_CLAIMS
MPI_CLAIMS = OPENING_CLAIMS + GROWTH_CLAIMS + DEATH_CLAIMS + RELEASE_CLAIMS
# Blocks of any length are for totals that one message can hold. Thousands of waiting pieces are matched one by one.
_NOT_IN_PIECES = (all_to_all_v_moves_uneven_and_empty_blocks, messages_of_any_length_cross_without_waiting)
IN_PIECES = tuple(claim for claim in ALL_CLAIMS if claim not in _NOT_IN_PIECES)


def on_parts_of(world: Communicator) -> Run:
    """Run functions on the first ranks, then on the last, those for more than there are on all; nothing twice."""
    done = set()

    def run(size: int, function: Callable[[Communicator], object]) -> None:
        size = min(size, world.size)
        for members in (world.ranks[:size], world.ranks[-size:]):
            if (function, members) in done:
                continue
            done.add((function, members))
            if world.rank in members:
                function(world.group(members))
            world.barrier()

    return run


def check_communicator_of_another_program() -> None:
    """Check that a communicator of mpi4py can be used as a world, with its own numbers, and is left alone."""
    from mpi4py import MPI

    from mpiparallel.communication import mpi

    backward = MPI.COMM_WORLD.Split(0, -MPI.COMM_WORLD.Get_rank())
    world = mpi.communicator_of(backward)
    assert (world.rank, world.ranks) == (backward.Get_rank(), tuple(range(backward.Get_size())))
    for claim in EXCHANGE_CLAIMS:
        claim(on_parts_of(world))
    world.free()
    assert backward.allreduce(1) == backward.Get_size()
    for wrong in (MPI.COMM_NULL, "world", None):
        with pytest.raises(CommunicationError, match="not an intracommunicator of mpi4py"):
            mpi.communicator_of(wrong)


def check_what_only_mpi_has(world: Communicator) -> None:
    """Check what no other communicator has, each claim with what it puts in the place of something."""
    for claim in MPI_CLAIMS:
        with pytest.MonkeyPatch.context() as patch:
            claim(world, patch)
        world.barrier()


def check_that_large_blocks_are_multiples_of_what_is_counted(world: Communicator) -> None:
    """Check that 39 bytes, which 19 elements can hold if these have 4 bytes each, are refused on each rank."""
    length = 2 * SMALL_MESSAGE + 1
    counts, array = [length] + [0] * (world.size - 1), np.zeros(length, np.uint8)
    with pytest.raises(CommunicationError, match="39 bytes are more than 19, so blocks must be multiples of 4 bytes"):
        world.all_to_all_v(array, counts, array.copy(), counts)


def check_whole_messages() -> str:
    """Check a world as the machine has it, and return what its rank may say once all is over."""
    # Not above: pytest imports this file to look for doctests, and must not start MPI.
    from mpiparallel.communication import mpi

    first = mpi.world()
    check_what_only_mpi_has(first)
    check_communicator_of_another_program()
    held = check(mpi.world(), ALL_CLAIMS)
    a_message_may_outlive_mpi(first)
    return held


def check_messages_in_pieces() -> str:
    """Check a world whose ranks share a core and send small messages, and return the same."""
    from mpiparallel.communication import mpi

    if sys.platform == "linux":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    world = mpi.world(SMALL_MESSAGE)
    check_that_large_blocks_are_multiples_of_what_is_counted(world)
    return check(world, IN_PIECES)


def check(world: Communicator, claims: Sequence[Claim]) -> str:
    """Check claims one after the other on a world, which is freed; return that they hold."""
    for claim in claims:
        claim(on_parts_of(world))
    held = f"rank {world.rank} of {world.size} holds {len(claims)} claims\n"
    world.free()
    return held


def main() -> None:
    from mpiparallel.communication import mpi

    mpi.abort_job_on_uncaught_exception()
    held = {"whole": check_whole_messages, "in pieces": check_messages_in_pieces}[sys.argv[1]]()
    sys.stdout.write(held)


if __name__ == "__main__":
    main()
