"""Real ranks that share a device: each trains a network there, and rank 0 prints the losses."""

from __future__ import annotations

import json
import sys


def main() -> None:
    # Not above: pytest imports this file to look for doctests, and must not start MPI.
    from mpiparallel.communication import init, world
    from tests.gpu.test_training import losses

    init()
    everyone = world.current()
    found = losses(everyone, sys.argv[1], sys.argv[2], True)
    if everyone.rank == 0:
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
