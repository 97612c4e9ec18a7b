"""A world of any size in one process: every other rank does just what this one does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication.protocol import Communicator, Completion, NotedCall, Reduction, StepFlag, UnwrittenCall
from mpiparallel.errors import CommunicationError
from mpiparallel.pipeline.action import Action


def simulated_world(size: int, ranks_per_host: int) -> Communicator:
    """Return a world of ``size`` ranks, consecutive ones on a host, of which only rank 0 is there.

    Collectives give what they would if all ranks gave the same. Messages to others are refused.

    >>> import numpy as np
    >>> world = simulated_world(16384, ranks_per_host=8)
    >>> total = np.ones(1)
    >>> world.all_reduce(total)
    >>> world.size, float(total[0])
    (16384, 16384.0)
    """
    return cast(Communicator, SimulatedCommunicator(tuple(range(size)), ranks_per_host))


class SimulatedCommunicator:
    """Some ranks of a world, this process the first of them; see `simulated_world`."""

    rank = 0
    overlaps = False
    library = "simulated"
    can_share = False

    def __init__(self, ranks: Sequence[int], ranks_per_host: int) -> None:
        self.ranks = tuple(ranks)
        self.size = len(self.ranks)
        self._ranks_per_host = ranks_per_host
        self.step_flag = StepFlag()
        self.kept: dict[str, Any] = {}

    @property
    def hosts(self) -> tuple[int, ...]:
        """For each member the lowest world rank on its host."""
        return tuple(rank - rank % self._ranks_per_host for rank in self.ranks)

    @property
    def host_ranks(self) -> tuple[int, ...]:
        """The members on the host of the first."""
        hosts = self.hosts
        return tuple(rank for rank, host in zip(self.ranks, hosts, strict=True) if host == hosts[0])

    def labelled(self, label: str) -> SimulatedCommunicator:
        """Return the same members."""
        return self

    def beginning(self, stage: int, action: Action | None) -> Completion:
        """Return what does nothing."""
        return _do_nothing

    def group(self, ranks: Sequence[int]) -> SimulatedCommunicator:
        """Return some members."""
        return SimulatedCommunicator(ranks, self._ranks_per_host)

    world_of = group

    def start_step_check(self, fingerprint: str) -> Completion:
        """Pass the flag on: all say the same."""
        self.step_flag.heard = self.step_flag.own
        return _do_nothing

    def noted(self, operation: str, *details: Any, count: int = 0) -> NotedCall:
        """Return a call that nobody writes down."""
        return UnwrittenCall()

    def barrier(self) -> None:
        """Wait for nobody."""

    free = rest = check_members = barrier

    def broadcast(self, array: NDArray[Any], root: int) -> None:
        """Leave ``array``, which all have."""

    def any_true(self, flag: bool) -> bool:
        """Return what all say."""
        return flag

    def all_reduce(self, array: NDArray[Any], operation: Reduction = "sum") -> None:
        """Add, or multiply, ``array`` as often as there are members."""
        if array.dtype == bool:
            return
        if operation == "sum":
            # Sums of integers wrap around, and so does what is too large for a small dtype here.
            array *= np.array(self.size).astype(array.dtype)
        elif operation == "prod":
            array **= array.dtype.type(self.size)

    def reduce(self, array: NDArray[Any], root: int, operation: Reduction = "sum") -> None:
        """Do as `all_reduce`."""
        self.all_reduce(array, operation)

    def all_gather(self, source: NDArray[Any], target: NDArray[Any]) -> None:
        """Put ``source`` into each block of ``target``."""
        target.reshape(self.size, -1)[:] = source.reshape(1, -1)

    def reduce_scatter(self, source: NDArray[Any], target: NDArray[Any], operation: Reduction = "sum") -> None:
        """Reduce the first block of ``source``."""
        target[...] = source.reshape(self.size, *target.shape)[0]
        self.all_reduce(target, operation)

    def all_to_all(self, source: NDArray[Any], target: NDArray[Any]) -> None:
        """Put the first block of ``source``, which all send here, into each block of ``target``."""
        blocks = source.reshape(self.size, -1)
        target.reshape(self.size, -1)[:] = blocks[:1]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not hasattr(Communicator, name):
            raise AttributeError(name)

        def refuse(*arguments: Any, **options: Any) -> None:
            raise CommunicationError(
                f"{name}: in a simulation there is no other rank to talk to; leave it out there, or put it after the "
                "training"
            )

        return refuse


def _do_nothing() -> None:
    pass
