"""What kernels take on a machine, by their names: so many seconds of a call, of an operation and of a byte."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mpiparallel.dataclass import dataclass

if TYPE_CHECKING:
    from mpiparallel.graph.cost import Cost

PARTS: Final = ("call", "operand", "operations", "bytes_read", "bytes_written", "bytes_gathered", "bytes_turned")
"""What the seconds of a kernel are made of: the call, each operand of it, and all that `Cost` counts."""


@dataclass(frozen=True)
class KernelTimes:
    """The seconds of kernels of one ``name``: of a call, of each operand, and of each operation and byte by kind."""

    name: str
    call: float = 0.0
    operand: float = 0.0
    operations: float = 0.0
    bytes_read: float = 0.0
    bytes_written: float = 0.0
    bytes_gathered: float = 0.0
    bytes_turned: float = 0.0

    def seconds(self, cost: Cost, operands: int) -> float:
        """Return the seconds of a kernel of this cost that is given so many arrays.

        >>> from mpiparallel.graph.cost import Cost
        >>> KernelTimes("MaxPool", call=1.0, bytes_read=0.5).seconds(Cost(0, bytes_read=4), 2)
        3.0
        """
        return (
            self.call
            + self.operand * operands
            + self.operations * cost.operations
            + self.bytes_read * cost.bytes_read
            + self.bytes_written * cost.bytes_written
            + self.bytes_gathered * cost.bytes_gathered
            + self.bytes_turned * cost.bytes_turned
        )

    def shared(self, ranks: int) -> KernelTimes:
        """Return the times of kernels whose work is dealt out to so many ranks, each of which calls them."""
        return replace(self, **{name: getattr(self, name) / ranks for name in PARTS[2:]})
