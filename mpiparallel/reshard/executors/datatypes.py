"""One exchange of derived datatypes: the MPI library reads strided sources and writes strided targets itself."""

from __future__ import annotations

from typing import Final

from mpiparallel.communication.protocol import Communicator, StridedExchange
from mpiparallel.errors import ReshardError
from mpiparallel.reshard.bound_plan import BoundPlan
from mpiparallel.reshard.checksums import Checksummer
from mpiparallel.reshard.verification import Checked


class DatatypesExecutor:
    """Gives the MPI library one structure of subarrays for each peer, and all of them in one Alltoallw.

    It needs no scratch memory of its own.
    """

    NAME: Final = "datatypes"

    def __init__(self, bound: BoundPlan, communicator: Communicator, checksummer: Checksummer | None) -> None:
        self._bound = bound
        self._checksummer = checksummer
        self._communicator = communicator
        self._exchange: StridedExchange | None = None

    def connect(self) -> None:
        """Make the structures; all ranks call it together."""
        bound = self._bound
        try:
            self._exchange = self._communicator.strided_exchange(
                {stream.member: stream.pieces for stream in bound.outgoing},
                {stream.member: stream.pieces for stream in bound.incoming},
            )
        except MemoryError as error:
            raise ReshardError(f"not enough memory: {error}") from error

    def run(self) -> Checked:
        """Fill the targets from the sources; all ranks call it together."""
        self._bound.copy_own()
        if self._exchange is not None:
            self._exchange.run()
        checked = Checked()
        if self._checksummer:
            for stream in self._bound.outgoing:
                checked.add_sent(stream, self._checksummer)
            for stream in self._bound.incoming:
                checked.add_arrived(stream, self._checksummer)
        return checked

    def free(self) -> None:
        """Give back the structures."""
        if self._exchange is not None:
            self._exchange.free()
