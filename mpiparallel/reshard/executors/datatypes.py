"""One exchange of derived datatypes: the MPI library reads strided sources and writes strided targets itself."""

from __future__ import annotations

from typing import Final

from mpiparallel.communication.protocol import Communicator, StridedExchange
from mpiparallel.reshard.bound_plan import BoundPlan


class DatatypesExecutor:
    """Gives the MPI library one structure of subarrays for each peer, and all of them in one Alltoallw.

    It needs no scratch memory of its own.
    """

    NAME: Final = "datatypes"

    def __init__(self, bound: BoundPlan, communicator: Communicator) -> None:
        self._bound = bound
        self._communicator = communicator
        self._exchange: StridedExchange | None = None

    def connect(self) -> None:
        """Make the structures; all ranks call it together."""
        bound = self._bound
        self._exchange = self._communicator.strided_exchange(
            {stream.member: stream.pieces for stream in bound.outgoing},
            {stream.member: stream.pieces for stream in bound.incoming},
        )

    def run(self) -> None:
        """Fill the targets from the sources; all ranks call it together."""
        self._bound.copy_own()
        if self._exchange is not None:
            self._exchange.run()

    def free(self) -> None:
        """Give back the structures."""
        if self._exchange is not None:
            self._exchange.free()
