"""Ranks of which the last sleeps and the others wait for it in a collective: ``notes operation``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from mpiparallel.communication import init
from mpiparallel.communication.world import current

LONGEST_LIFE = 3600.0


def main() -> None:
    notes, operation = Path(sys.argv[1]), sys.argv[2]
    init()
    world = current()
    world.barrier()
    (notes / f"up{world.rank}").touch()
    if world.rank == world.size - 1:
        time.sleep(LONGEST_LIFE)
    if operation == "Barrier":
        world.barrier()
    else:
        world.all_reduce(np.ones(1_000_000, np.float32))


if __name__ == "__main__":
    main()
