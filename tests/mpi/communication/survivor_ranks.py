"""Ranks that work in groups and worlds, and die one after the other: ``seed`` draws who dies at which collective."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import numpy as np

ROUNDS = 40


def main() -> None:
    # Not above: pytest imports this file to look for doctests, and must not start MPI.
    from mpiparallel.communication import init, world
    from mpiparallel.communication.mpi.survival import agreed, revoke, survivors
    from mpiparallel.errors import RankFailureError

    init()
    everyone = world.current()
    number, size = everyone.rank, everyone.size
    rows = np.random.default_rng(int(sys.argv[1]))
    dying = rows.permutation(size)[: size // 2].tolist()
    fates = dict(zip(dying, rows.integers(1, ROUNDS * 6, size // 2).tolist(), strict=True))
    calls = 0

    def strike() -> None:
        nonlocal calls
        calls += 1
        if fates.get(number) == calls:
            os.kill(os.getpid(), signal.SIGKILL)

    def work(team: Any) -> None:
        ranks = team.ranks
        half = [rank for rank in ranks if rank % 2 == number % 2]
        turned = team.world_of(ranks[::-1])
        team.group(half)
        # Open MPI does not survive a death while a communicator is made.
        team.barrier()
        for step in range(ROUNDS):
            group = team.group(half)
            for communicator, expected in ((team, sum(ranks)), (group, sum(half)), (turned, sum(ranks))):
                strike()
                total = np.full(1000, number, np.int64)
                ending = communicator.start_all_reduce(total) if step % 2 else communicator.all_reduce(total)
                if step % 2:
                    ending()
                assert set(total.tolist()) == {expected}, (total[0], expected)
            strike()
            row = np.array([number], np.uint8)
            peers = {member: np.zeros(1, np.uint8) for member in range(team.size)}
            team.exchange({member: row for member in peers}, peers)
            assert [int(peers[member][0]) for member in range(team.size)] == list(ranks)
            strike()
            team.rest() if step % 3 else team.barrier()
            strike()
            assert group.any_true(False) is False

    while True:
        begun = time.perf_counter()
        try:
            work(everyone)
            well = True
        except RankFailureError:
            well = False
            revoke(everyone)
        if agreed(everyone, well):
            break
        everyone = survivors(everyone)
        assert everyone.ranks[everyone.rank] == number
    living = [rank for rank in range(size) if rank not in fates]
    assert set(living) <= set(everyone.ranks), (everyone.ranks, fates)
    sys.stdout.write(f"rank {number} ends among {list(everyone.ranks)}, {time.perf_counter() - begun:.1f} s\n")


if __name__ == "__main__":
    main()
