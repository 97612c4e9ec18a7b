"""Arrays of GPUs that are not there, moved on each way between real ranks; ``die WAY`` lets one die amid a call."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

NAMES = ("staging", "nccl", "ipc", "mpi")


def main() -> None:
    # Not above: pytest imports this file to look for doctests, and must not start MPI.
    from mpiparallel.communication import init, world
    from tests.conformance.hidden_arrays.ranks import gpus_of_their_own

    init()
    everyone = world.current()
    with gpus_of_their_own(Path(sys.argv[1])) as patch:
        if "die" in sys.argv:
            _die(everyone, sys.argv[-1], patch)
            return
        for name in NAMES:
            _check(everyone.world_of(everyone.ranks), name, patch)
        _differ(everyone, patch)
    print(f"rank {everyone.rank} of {everyone.size} is through", flush=True)


def _check(everyone: Any, name: str, patch: Any) -> None:
    from mpiparallel.dtype import bfloat16
    from tests.conformance.hidden_arrays.ipc import blocks_left
    from tests.conformance.hidden_arrays.ranks import travel_by
    from tests.unit.communication.test_transports import exchanges, moves, reductions
    from tests.unit.parallel.test_device_space import moves as device_space_moves
    from tests.unit.parallel.test_device_space import random_moves

    travel_by(patch, name)
    for dtype, operation in ((np.float32, "sum"), (bfloat16, "sum"), (bool, "sum"), (np.int16, "max")):
        reductions(everyone, name, dtype, operation)
    moves(everyone, np.float64)
    exchanges(everyone, {(0, 1): 700, (1, 0): 3, (0, 0): 40})
    for case in random_moves(everyone.size)[:4]:
        device_space_moves(everyone, case)
    half = everyone.group([rank for rank in everyone.ranks if rank % 2 == everyone.rank % 2])
    if half.size > 1:
        reductions(half, name, np.float32, "max")
    everyone.free()
    assert blocks_left() == 0


def _differ(everyone: Any, patch: Any) -> None:
    """See what NCCL would wait for in vain refused before it is asked."""
    from mpiparallel.errors import CommunicationError
    from tests.conformance.hidden_arrays.ranks import Rank, travel_by

    travel_by(patch, "nccl")
    rank = Rank(everyone.world_of(everyone.ranks))
    array = rank.array(np.ones(4 if everyone.rank else 5, np.float32))
    refused = ""
    try:
        rank.transport.all_reduce(array).run()
    except CommunicationError as error:
        refused = str(error)
    assert "all_reduce(5, <f4, sum)" in refused, refused
    assert not rank.transport.group.comm.log


def _die(everyone: Any, name: str, patch: Any) -> None:
    from mpiparallel.errors import RankFailureError
    from tests.conformance.hidden_arrays.ranks import Rank, travel_by

    travel_by(patch, name)

    # Calls of a compiled step are not compared each time, so nobody hears of the death before the device does not end.
    rank = Rank(everyone.labelled("a step"))
    array = rank.array(np.ones(4, np.float32))
    call = rank.transport.all_reduce(array)
    call.run()
    assert rank.backend.to_host(array).tolist() == [everyone.size] * 4
    if everyone.rank == 1:
        if name == "nccl":
            rank.transport.group.comm.board.die()
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        call.run()
        rank.backend.to_host(array)
    except RankFailureError:
        if name == "nccl":
            assert_aborted(rank)
        print(f"rank {everyone.rank} is told that a rank has died", flush=True)
        os._exit(0)


def assert_aborted(rank: Any) -> None:
    """Check that nothing is left that the device waits in."""
    assert rank.transport.group.comm.aborted


if __name__ == "__main__":
    main()
