"""Where the arrays of a move are, and all that depends on it: the host's memory here, a device's elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import numpy as np

from mpiparallel.communication.agreement import failing_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import ReshardError
from mpiparallel.layout.box import Box
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard import memory
from mpiparallel.reshard.bound_plan import BoundPlan
from mpiparallel.reshard.checksums import PORTION_BYTES, Checksummer
from mpiparallel.reshard.executors.choice import ExecutorChoice
from mpiparallel.reshard.executors.executor import EXECUTORS, Executor
from mpiparallel.reshard.executors.packed import PackedExecutor
from mpiparallel.reshard.executors.shared import SharedExecutor
from mpiparallel.reshard.executors.traffic_shape import TrafficShape
from mpiparallel.reshard.options import ReshardOptions
from mpiparallel.reshard.tensor_digest import host_digest


class ArraySpace(Protocol):
    """Memory in which arrays move; all ranks of a move have arrays in the same kind of memory.

    ``checksum_bytes`` are those of the scratch memory that checksums need.
    """

    checksum_bytes: int

    def problem(self, array: Any) -> str | None:
        """Return what is wrong with the kind of an array, None if nothing is."""

    def get_ready(self) -> None:
        """Find out, once, how arrays are moved; all ranks call it together."""

    def choose(self, shape: TrafficShape) -> str:
        """Return the name of an executor for traffic of this shape; all ranks call it together."""

    def targets(
        self, executor: str, layouts: Mapping[str, Layout], dtypes: Mapping[str, np.dtype[Any]], kept: Collection[str]
    ) -> tuple[str, memory.Targets]:
        """Return arrays for what this rank holds by ``layouts``, without those that are ``kept``, and their executor.

        All ranks call it together. Raises ReshardError on all of them where one has no memory.
        """

    def executor(self, name: str, bound: BoundPlan, shape: TrafficShape, targets: memory.Targets) -> Executor:
        """Return what carries out a plan; it needs no other rank."""

    def digest(self, array: Any, box: Box, global_shape: tuple[int, ...]) -> int:
        """Return what an array, which is ``box`` of a tensor, adds to the digest of that."""


class HostSpace:
    """The memory of the host, and the executors that move NumPy's arrays there, or the one that was asked for.

    Raises ReshardError on every rank where shared memory is asked for and cannot be had.
    """

    def __init__(self, options: ReshardOptions, communicator: Communicator) -> None:
        self._options = options
        self._communicator = communicator
        self._executors = ExecutorChoice(options.executor, communicator)
        self.checksum_bytes = min(PORTION_BYTES, options.scratch_bytes // 4) if options.verify else 0

    def problem(self, array: Any) -> str | None:
        """Say what to do with what is no NumPy array."""
        if isinstance(array, np.ndarray):
            return None
        return f"got a {type(array).__name__}, not a NumPy array; use numpy.asarray(...)"

    def get_ready(self) -> None:
        """Measure the executors if that is needed and nobody has."""
        self._executors.calibrate()

    def choose(self, shape: TrafficShape) -> str:
        """Return the name of an executor."""
        return self._executors.choose(shape)

    def targets(
        self, executor: str, layouts: Mapping[str, Layout], dtypes: Mapping[str, np.dtype[Any]], kept: Collection[str]
    ) -> tuple[str, memory.Targets]:
        """Return new arrays; where shared memory was not asked for by name and cannot be had, they are private."""
        if executor == SharedExecutor.NAME:
            try:
                return executor, memory.shared_targets(layouts, dtypes, kept, self._communicator)
            except MemoryError as error:
                if self._options.executor == SharedExecutor.NAME:
                    raise ReshardError(
                        f"not enough memory to share on a host: {error}; take executor='auto', or mode='bounded'"
                    ) from error
                executor = PackedExecutor.NAME
        rank = self._communicator.ranks[self._communicator.rank]
        new = {tensor: layout for tensor, layout in layouts.items() if tensor not in kept}
        targets = memory.Targets({})
        with failing_together(self._communicator, ReshardError):
            targets = memory.private_targets(new, dtypes, rank)
        return executor, targets

    def executor(self, name: str, bound: BoundPlan, shape: TrafficShape, targets: memory.Targets) -> Executor:
        """Return an executor of this name."""
        checksummer = Checksummer(self.checksum_bytes) if self._options.verify else None
        return EXECUTORS[name](bound, self._communicator, shape, targets, checksummer)

    def digest(self, array: Any, box: Box, global_shape: tuple[int, ...]) -> int:
        """Return the digest of a part, made in scratch memory of the size that was asked for."""
        return host_digest(array, box, global_shape, self._options.scratch_bytes)
