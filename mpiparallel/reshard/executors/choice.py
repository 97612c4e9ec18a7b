"""Which executor carries out a plan."""

from __future__ import annotations

from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import ReshardError
from mpiparallel.reshard.executors.calibration import Calibration, calibration_of
from mpiparallel.reshard.executors.executor import EXECUTORS, executors_for
from mpiparallel.reshard.executors.traffic_shape import TrafficShape


class ExecutorChoice:
    """The executor that was asked for, or the quickest for the traffic; the same on every rank.

    Raises ReshardError on every rank where shared memory is asked for and cannot be had.
    """

    def __init__(self, asked: str, communicator: Communicator) -> None:
        if asked in EXECUTORS and asked not in executors_for(communicator):
            raise ReshardError(
                f"executor {asked!r}: the ranks of a host cannot see each other's memory here (they are in other "
                "containers, or there is no /proc); take executor='auto'"
            )
        self._asked = asked
        self._communicator = communicator
        self._calibration: Calibration | None = None

    def calibrate(self) -> None:
        """Measure the executors if that is needed and nobody has; all ranks call it together."""
        if self._asked not in EXECUTORS and self._communicator.size > 1 and self._calibration is None:
            self._calibration = calibration_of(self._communicator)

    def choose(self, shape: TrafficShape) -> str:
        """Return the name of an executor; all ranks call it together."""
        if self._asked in EXECUTORS:
            return self._asked
        self.calibrate()
        if self._calibration is None or not shape.largest_stream:
            return "packed"
        return self._calibration.best(shape)
