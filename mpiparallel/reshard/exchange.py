"""A plan bound to arrays: made once, run many times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mpiparallel.communication.protocol import Communicator
from mpiparallel.reshard.bound_plan import Arrays, bind
from mpiparallel.reshard.executors.packed import PackedExecutor
from mpiparallel.reshard.executors.traffic_shape import agree_on_shape
from mpiparallel.reshard.planning.plan import LayoutPair, ReshardPlan


class Exchange:
    """A plan bound to arrays: made once by all ranks together, run many times.

    ``sources`` has an array for each tensor of which this rank has a box before the move. ``targets`` has one for each
    of which it has a box after. Tensors that the plan keeps stay where they are, and may be left out. Arrays may be
    strided; no target may share memory with a source. A tensor has one dtype, the same on all ranks. The scratch
    memory, at most ``bytes_sent + bytes_received`` and some padding, lives as long as the exchange. ``ranks`` are the
    numbers that the plan gives to the members, where those are not their world ranks.

    Raises ReshardError, on this rank alone, for an array that does not fit its layout. It does so too for a
    communicator without this rank or one of its peers.
    """

    def __init__(
        self,
        plan: ReshardPlan,
        layouts: Mapping[str, LayoutPair],
        sources: Arrays,
        targets: Arrays,
        communicator: Communicator,
        ranks: Sequence[int] | None = None,
    ) -> None:
        bound = bind(plan, layouts, sources, targets, communicator, ranks)
        self._executor = PackedExecutor(bound, communicator, agree_on_shape(bound.piece_bytes, communicator, None))
        self._executor.connect()
        self.bytes_sent = bound.bytes_sent
        self.bytes_received = bound.bytes_received

    def run(self) -> None:
        """Fill the targets from the sources; all ranks call it together."""
        self._executor.run()
