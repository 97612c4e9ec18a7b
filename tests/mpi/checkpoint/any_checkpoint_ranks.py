"""Saves random states on real ranks and loads each by another layout; the ranks draw the same by seeds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mpiparallel.checkpoint.catalogue import newest
from mpiparallel.checkpoint.loading.load import load_state
from mpiparallel.checkpoint.saving import save_shards
from mpiparallel.checkpoint.stored_state import StoredState
from mpiparallel.communication import init, release
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.world import current
from tests.conformance.resharding.reshard_cases import Case, Seeded, any_case, storable
from tests.mpi.reshard.any_reshard_ranks import OnHosts

CASES = 40
WAVES = (64 << 20, 1 << 10, 1)


def check(communicator: Communicator, case: Case, folder: Path, number: int) -> None:
    given = case.given(communicator.rank)
    save_shards(folder, "net", 1, 1, given, case.source, communicator, {}, number % 2 == 1)
    with StoredState.of_manifest(folder, newest(folder)) as state:
        arrays = load_state(state, case.target, communicator, WAVES[number % 3])
    expected = case.expected(communicator.rank)
    if {name: array.tobytes() for name, array in arrays.items()} != {n: a.tobytes() for n, a in expected.items()}:
        raise ValueError(f"case {number}: what was loaded is not what NumPy slices")


def main() -> None:
    init()
    world = current()
    for number in range(CASES):
        case = storable(any_case(Seeded(number), world.size))
        if world.rank < case.size:
            communicator: Any = world.group(range(case.size))
            if number % 4 == 0:
                communicator = OnHosts(communicator, case.hosts)
            try:
                check(communicator, case, Path(sys.argv[1]) / str(number), number)
            except Exception:
                sys.stderr.write(f"{case}\n")
                raise
    rank = world.rank
    release()
    sys.stdout.write(f"rank {rank} loads what NumPy slices of {CASES} checkpoints\n")


if __name__ == "__main__":
    main()
