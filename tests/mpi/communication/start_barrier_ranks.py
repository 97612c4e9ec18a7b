"""Run by ``mpirun`` with a folder: each rank says that it has come to the barrier, the last one late."""

import sys
import time
from pathlib import Path


def main() -> None:
    # Not above: pytest imports this file to look for doctests, and must not start MPI.
    from mpiparallel.communication.mpi.library import MPI
    from mpiparallel.communication.mpi.start_barrier import wait_for_all_starts

    folder, rank, size = Path(sys.argv[1]), MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
    if rank == size - 1:
        time.sleep(0.5)
    (folder / f"{rank}").touch()
    wait_for_all_starts()
    sys.stdout.write(f"rank {rank} goes on after {len(list(folder.iterdir()))}\n")


if __name__ == "__main__":
    main()
