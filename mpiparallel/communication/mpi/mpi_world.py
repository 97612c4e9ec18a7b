"""What all communicators of one MPI world share, the check with which its ranks begin a step included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any

from numpy.typing import NDArray

from mpiparallel.cluster.flight.recorder import FlightRecorder
from mpiparallel.communication.fault_injection.fault_schedule import FaultSchedule
from mpiparallel.communication.mpi.library import MPI
from mpiparallel.communication.mpi.request_waiting import RequestWait, wait_napping, wait_spinning
from mpiparallel.communication.protocol import Communicator, Completion, StepFlag
from mpiparallel.dataclass import dataclass


class StepCheck:
    """The comparison that ranks begin a step with: it must end before anything else is communicated.

    It may still be going on; ``step_flag`` is the flag that it passes on. All communicators of a world share it.
    """

    def __init__(self) -> None:
        self.step_flag = StepFlag()
        self.pending: Completion | None = None

    def end(self) -> None:
        """Wait for the comparison, if one is going on; raises CommunicationError where ranks differ."""
        pending = self.pending
        if pending is not None:
            self.pending = None
            pending()


@dataclass(frozen=True)
class MpiWorld:
    """The MPI communicator of a world, from which its groups are made, and what is known of its ranks.

    ``hosts`` gives each world rank the lowest one on its host. Where ranks are ``crowded``, some host has more of them
    than cores. A world that has ``grown`` must be freed before MPI ends, or Open MPI may crash or hang at the end.
    ``numbers`` are the ranks by the numbers of the job, under which the ``recorder`` knows them. ``faults`` are those
    that are to strike this rank on purpose.
    ``members`` are the world ranks in the order of ``comm`` where ranks have died and left gaps. ``made`` has what was
    made from ``comm``: groups, and worlds with what was made from those. ``unended`` are arrays of messages that were
    let go of while they were under way: MPI may still touch them.
    """

    comm: MPI.Intracomm
    hosts: tuple[int, ...]
    largest_message: int
    recorder: FlightRecorder
    numbers: tuple[int, ...]
    step_check: StepCheck
    fingerprints: str = "off"
    faults: FaultSchedule | None = None
    crowded: bool = False
    overlaps: bool = False
    can_share: bool = False
    grown: bool = False
    groups: dict[tuple[int, ...], Communicator] = field(default_factory=dict)
    datatypes: dict[int, MPI.Datatype] = field(default_factory=lambda: {1: MPI.BYTE})
    members: tuple[int, ...] = ()
    made: list[MPI.Intracomm] = field(default_factory=list)
    unended: list[NDArray[Any]] = field(default_factory=list)

    @property
    def wait(self) -> RequestWait:
        """How its ranks wait for requests."""
        return wait_napping if self.crowded else wait_spinning

    def of(self, comm: MPI.Intracomm, ranks: Sequence[int]) -> MpiWorld:
        """Return what is known of a world whose rank ``i`` is ``ranks[i]`` of this one."""
        hosts = [self.hosts[rank] for rank in ranks]
        return replace(
            self,
            comm=comm,
            hosts=tuple(hosts.index(host) for host in hosts),
            numbers=tuple(self.numbers[rank] for rank in ranks),
            groups={},
            datatypes={1: MPI.BYTE},
            members=(),
        )

    def places(self, ranks: Sequence[int]) -> list[int]:
        """Return which ranks of ``comm`` these world ranks are."""
        if not self.members:
            return list(ranks)
        places = {rank: place for place, rank in enumerate(self.members)}
        return [places[rank] for rank in ranks]

    def keep(self, comm: MPI.Intracomm) -> MPI.Intracomm:
        """Note what was made from ``comm``, and return it; what has been freed is forgotten."""
        self.made[:] = [one for one in self.made if one != MPI.COMM_NULL]
        self.made.append(comm)
        return comm

    def datatype(self, length: int) -> MPI.Datatype:
        """Return the datatype of ``length`` bytes in a row."""
        if length not in self.datatypes:
            self.datatypes[length] = MPI.BYTE.Create_contiguous(length).Commit()
        return self.datatypes[length]

    def free_datatypes(self) -> None:
        """Give back the datatypes that ``datatype`` made."""
        for length in [length for length in self.datatypes if length > 1]:
            self.datatypes.pop(length).Free()
