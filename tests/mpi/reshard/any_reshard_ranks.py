"""Carries out random moves on real ranks, by every executor and in both modes; the ranks draw the same by seeds."""

from __future__ import annotations

import sys
from itertools import product
from typing import Any

from mpiparallel.communication import init, release
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.world import current
from tests.conformance.resharding.reshard_cases import EXECUTORS, MODES, Seeded, any_case
from tests.conformance.resharding.reshard_claims import CLAIMS, bytes_moved, plans_of

CASES_OF_EACH = 36


class OnHosts:
    """A communicator whose ranks take themselves for ranks of several hosts."""

    def __init__(self, communicator: Communicator, hosts: tuple[int, ...]) -> None:
        self._communicator = communicator
        self.hosts = hosts
        own = hosts[communicator.rank]
        self.host_ranks = tuple(rank for rank, host in zip(communicator.ranks, hosts, strict=True) if host == own)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._communicator, name)


def main() -> None:
    init()
    world = current()
    moved = 0
    for (executor, mode), seed in product(product(EXECUTORS, MODES), range(CASES_OF_EACH)):
        drawn = f"{executor} {mode} {seed}".encode()
        case = any_case(Seeded(int.from_bytes(drawn, "big")), world.size, executor=executor, mode=mode)
        if world.rank < case.size:
            communicator: Any = OnHosts(world.group(range(case.size)), case.hosts)
            try:
                CLAIMS[seed % len(CLAIMS)](communicator, case, bytes_moved(case, plans_of(case)))
            except Exception:
                sys.stderr.write(f"{case}\n")
                raise
        moved += 1
    rank = world.rank
    release()
    sys.stdout.write(f"rank {rank} agrees with NumPy after {moved} moves\n")


if __name__ == "__main__":
    main()
