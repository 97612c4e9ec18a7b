"""Ranks that save one checkpoint after the other until they are killed: ``notes folder kept``.

They begin with the step after the newest checkpoint, once that has been loaded and is right. Where nobody kills them,
because the test itself was, they end after some minutes.
"""

from __future__ import annotations

import sys
import time
from itertools import count
from pathlib import Path

from mpiparallel.checkpoint.catalogue import CheckpointFiles, remove
from mpiparallel.communication import init
from mpiparallel.communication.world import current
from tests.reliability import states
from tests.reliability.acknowledgements import Log
from tests.reliability.mpi_job import announce
from tests.reliability.subject import load, save, steps_in

LONGEST_LIFE = 3600.0


def main() -> None:
    notes, folder, kept = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    announce(notes)
    init()
    world = current()
    state = states.replicated(world.size)
    there = steps_in(folder)
    world.barrier()
    newest = max(there, default=0)
    if newest:
        arrays = load(world, folder, there[newest], states.layouts(state))
        wrong = states.differing(arrays, states.held(state, world.rank, newest))
        if wrong:
            sys.exit(f"WRONG: rank {world.rank} loads {wrong} of step {newest}")
    log = Log(notes, world.rank)
    world.barrier()
    (notes / "going").touch()
    deadline = time.monotonic() + LONGEST_LIFE
    for step in count(newest + 1):
        if world.any_true(time.monotonic() > deadline):
            sys.exit("nobody has killed this job")
        save(world, folder, state, step, remove_redundancy=step % 3 == 0)
        log.add(step, kept)
        if world.rank == 0:
            there = steps_in(folder)
            for old in sorted(there)[:-kept]:
                remove(folder, [CheckpointFiles.of(there[old])])


if __name__ == "__main__":
    main()
