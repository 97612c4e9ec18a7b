"""What all communicators of one MPI world share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mpiparallel.communication.mpi.library import MPI
from mpiparallel.communication.mpi.waiting import Wait, wait_napping, wait_spinning

if TYPE_CHECKING:
    from mpiparallel.communication.mpi.communicator import MpiCommunicator


@dataclass(frozen=True)
class Root:
    """The MPI communicator of a world, from which its groups are made, and what is known of its ranks.

    ``hosts`` gives each world rank the lowest one on its host. Where ranks are ``crowded``, some host has more of them
    than cores. A world that has ``grown`` must be freed before MPI ends, or Open MPI may crash or hang at the end.
    """

    comm: MPI.Intracomm
    hosts: tuple[int, ...]
    largest_message: int
    crowded: bool = False
    overlaps: bool = False
    can_share: bool = False
    grown: bool = False
    groups: dict[tuple[int, ...], MpiCommunicator] = field(default_factory=dict)
    datatypes: dict[int, MPI.Datatype] = field(default_factory=lambda: {1: MPI.BYTE})

    @property
    def wait(self) -> Wait:
        """How its ranks wait for requests."""
        return wait_napping if self.crowded else wait_spinning

    def of(self, comm: MPI.Intracomm, ranks: Sequence[int]) -> Root:
        """Return what is known of a world whose rank ``i`` is ``ranks[i]`` of this one."""
        hosts = [self.hosts[rank] for rank in ranks]
        return replace(
            self,
            comm=comm,
            hosts=tuple(hosts.index(host) for host in hosts),
            groups={},
            datatypes={1: MPI.BYTE},
        )

    def datatype(self, length: int) -> MPI.Datatype:
        """Return the datatype of ``length`` bytes in a row."""
        if length not in self.datatypes:
            self.datatypes[length] = MPI.BYTE.Create_contiguous(length).Commit()
        return self.datatypes[length]

    def free_datatypes(self) -> None:
        """Give back the datatypes that ``datatype`` made."""
        for length in [length for length in self.datatypes if length > 1]:
            self.datatypes.pop(length).Free()
