"""What every executor can do, and the registry of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from mpiparallel.communication.protocol import Communicator
from mpiparallel.reshard.bound_plan import BoundPlan
from mpiparallel.reshard.executors.datatypes import DatatypesExecutor
from mpiparallel.reshard.executors.packed import PackedExecutor
from mpiparallel.reshard.executors.shared import SharedExecutor
from mpiparallel.reshard.executors.traffic_shape import TrafficShape
from mpiparallel.reshard.memory import Targets


class Executor(Protocol):
    """A bound plan, ready to be carried out. Making one needs no other rank; the rest is done by all ranks together."""

    def connect(self) -> None:
        """Learn what must be known of the peers."""

    def run(self) -> None:
        """Fill the targets from the sources; as often as wanted."""

    def free(self) -> None:
        """Give back what it holds."""


Maker = Callable[[BoundPlan, Communicator, TrafficShape, Targets], Executor]

EXECUTORS: Final[dict[str, Maker]] = {
    PackedExecutor.NAME: lambda bound, communicator, shape, _: PackedExecutor(bound, communicator, shape),
    DatatypesExecutor.NAME: lambda bound, communicator, _, __: DatatypesExecutor(bound, communicator),
    SharedExecutor.NAME: SharedExecutor,
}


def make_executor(
    name: str, bound: BoundPlan, communicator: Communicator, shape: TrafficShape, targets: Targets
) -> Executor:
    """Return the executor of this name for a bound plan whose targets are ``targets``."""
    return EXECUTORS[name](bound, communicator, shape, targets)
