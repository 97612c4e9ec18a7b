"""Ranks that all-reduce for ever, and count: ``stepping.py FOLDER``; each step adds a byte to ``FOLDER/steps``.

When ``FOLDER/enough`` is there all end well, unless one has been sent a signal meanwhile.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path


def main() -> None:
    from mpi4py import MPI

    from mpiparallel.cluster.preemption_signal import signal_that_came

    folder = Path(sys.argv[1])
    world = MPI.COMM_WORLD
    while not world.allreduce((folder / "enough").exists(), MPI.LOR):
        if world.rank == 0:
            with (folder / "steps").open("ab") as steps:
                steps.write(b".")
        time.sleep(0.02)
    if signal_that_came():
        raise SystemExit(f"rank {world.rank} was sent signal {signal_that_came()}")


if __name__ == "__main__":
    main()
