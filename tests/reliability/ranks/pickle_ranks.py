"""Ranks that save, verify and load while every pickle is refused: ``notes folder``."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.communication import init, release
from mpiparallel.communication.world import current
from tests.reliability import states
from tests.reliability.subject import complaints, load, save


def refuse(*args: Any, **named: Any) -> Any:
    """Stand in for whatever makes or reads a pickle."""
    raise AssertionError("a pickle was made or read")


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse the reading of pickles by those who have the functions already."""
    if event == "pickle.find_class":
        refuse()


def main() -> None:
    # Not above: the process of the tests collects this file, and must not start MPI.
    from mpi4py import MPI

    folder = Path(sys.argv[2])
    init()
    world = current()
    # What mpi4py's lower-case calls use.
    MPI.pickle.__init__(refuse, refuse)
    for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
        setattr(pickle, name, refuse)
    sys.addaudithook(watch)
    state = states.replicated(world.size)
    for step, remove_redundancy in enumerate((False, True), start=1):
        manifest = Manifest.load(save(world, folder, state, step, remove_redundancy))
        found = load(world, folder, manifest, states.layouts(state))
        assert not states.differing(found, states.held(state, world.rank, step))
        assert not complaints(folder, manifest.name)
    try:
        sent = MPI.COMM_SELF.bcast({"pickled": 1})
    except AssertionError:
        sys.stdout.write(f"rank {world.rank} refuses pickles\n")
    else:
        sys.stdout.write(f"rank {world.rank} is not watched: {sent}\n")
    release()


if __name__ == "__main__":
    main()
