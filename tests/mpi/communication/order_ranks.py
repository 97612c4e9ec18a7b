"""Ranks whose ``RANK_ID`` runs against MPI's order."""

from __future__ import annotations

import os

import numpy as np

from mpiparallel.cluster.environment import Environment


def main() -> None:
    """Hold the world to the order of ``RANK_ID``: its numbers, its collectives and its groups."""
    found = Environment.read()
    mine = found.size - 1 - found.rank
    os.environ["RANK_ID"] = str(mine)
    from mpiparallel.communication import create_group, get_group_size, get_rank, init, world

    init()
    assert (get_rank(), get_group_size()) == (mine, found.size)
    gathered = np.empty(found.size, np.int64)
    world.current().all_gather(np.array([mine]), gathered)
    assert gathered.tolist() == list(range(found.size))
    if mine < 2:
        create_group("first two", [0, 1])
        assert get_rank("first two") == mine
    print(f"process {found.rank} is rank {mine}\n", end="", flush=True)


if __name__ == "__main__":
    main()
