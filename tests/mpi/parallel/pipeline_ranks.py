"""Four ranks train in two stages, by a schedule, with the cells in stages like 001100; each says its losses."""

from __future__ import annotations

import sys


def main() -> None:
    # Not above: pytest imports this file to look for doctests, and must not start MPI.
    from mpiparallel.communication import init
    from mpiparallel.communication.world import current
    from tests.unit.train.staged_networks import Case, trained

    init()
    stages = tuple(map(int, sys.argv[2]))
    case = Case(stages, dropout=0.25, cut=2, tied=True, schedule={"pipeline_scheduler": sys.argv[1]})
    losses, held = trained(current(), case)
    # In one piece, or lines of several ranks run together.
    sys.stdout.write(f"rank {current().rank} holds {len(held)}: {' '.join(f'{loss:.12f}' for loss in losses)}\n")


if __name__ == "__main__":
    main()
