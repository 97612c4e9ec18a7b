"""Ranks that all-reduce for ever: ``turning.py FOLDER``; rank k raises when ``FOLDER/raise_k`` is there.

Each rank says by ``FOLDER/turning_k`` that it has begun. When ``FOLDER/enough`` is there they all end well.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path


def main() -> None:
    from mpi4py import MPI

    folder = Path(sys.argv[1])
    world = MPI.COMM_WORLD
    print(f"rank {world.rank} on {MPI.Get_processor_name()}", flush=True)
    while not world.allreduce((folder / "enough").exists(), MPI.LOR):
        (folder / f"turning_{world.rank}").touch()
        if (folder / f"raise_{world.rank}").exists():
            raise ArithmeticError(f"asked of rank {world.rank}")
        time.sleep(0.02)


if __name__ == "__main__":
    main()
