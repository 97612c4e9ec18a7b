"""What every executor can do, and the registry of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from mpiparallel.communication.protocol import Communicator
from mpiparallel.reshard.bound_plan import BoundPlan
from mpiparallel.reshard.checksums import Checksummer
from mpiparallel.reshard.executors.datatypes import DatatypesExecutor
from mpiparallel.reshard.executors.packed import PackedExecutor
from mpiparallel.reshard.executors.shared import SharedExecutor
from mpiparallel.reshard.executors.traffic_shape import TrafficShape
from mpiparallel.reshard.memory import Targets
from mpiparallel.reshard.verification import Checked


class Executor(Protocol):
    """A bound plan, ready to be carried out. Making one needs no other rank; the rest is done by all ranks together."""

    def connect(self) -> None:
        """Learn what must be known of the peers."""

    def run(self) -> Checked:
        """Fill the targets from the sources, as often as wanted; return checksums if it was made to."""

    def free(self) -> None:
        """Give back what it holds."""


Maker = Callable[[BoundPlan, Communicator, TrafficShape, Targets, Checksummer | None], Executor]

EXECUTORS: Final[dict[str, Maker]] = {
    PackedExecutor.NAME: lambda bound, communicator, shape, _, sums: PackedExecutor(bound, communicator, shape, sums),
    DatatypesExecutor.NAME: lambda bound, communicator, _, __, sums: DatatypesExecutor(bound, communicator, sums),
    SharedExecutor.NAME: SharedExecutor,
}
"""By name: what makes an executor for a bound plan whose targets are these; with a checksummer it makes checksums."""


def executors_for(communicator: Communicator) -> list[str]:
    """Return the names of the executors that work between these ranks, the same on all of them."""
    return [name for name in EXECUTORS if name != SharedExecutor.NAME or communicator.can_share]
