"""A rank that adds up one number over all ranks; rank 0 then prints the time, by a clock that all processes share.

``mpi4py`` as its argument does so with mpi4py alone, ``mpiparallel`` with ``init()`` and a communicator of mpiparallel.
"""

from __future__ import annotations

import sys
import time


def main() -> None:
    """Import no more than the way that was asked for needs."""
    rank = _by_mpi4py() if sys.argv[1] == "mpi4py" else _by_mpiparallel()
    if rank == 0:
        print(f"first collective at {time.monotonic():.6f}", flush=True)


def _by_mpi4py() -> int:
    from mpi4py import MPI

    MPI.COMM_WORLD.allreduce(1)
    return MPI.COMM_WORLD.rank


def _by_mpiparallel() -> int:
    import numpy as np

    from mpiparallel.communication import init, world

    init()
    ranks = world.current()
    ranks.all_reduce(np.ones(1))
    return ranks.rank


if __name__ == "__main__":
    main()
