"""A rank of the doctor's job: add up all ranks' numbers, and let rank 0 print the sum as JSON."""

from __future__ import annotations

import importlib
import json


def main() -> None:
    """Add 1 of each rank."""
    mpi = importlib.import_module("mpi4py.MPI")
    total = mpi.COMM_WORLD.allreduce(1)
    if mpi.COMM_WORLD.rank == 0:
        print(json.dumps({"sum": total}), flush=True)


if __name__ == "__main__":
    main()
