"""What each stage of a pipeline does in a step, in order."""

from __future__ import annotations

from dataclasses import dataclass

from mpiparallel.pipeline.action import Action
from mpiparallel.pipeline.placement import Placement


@dataclass(frozen=True)
class Schedule:
    """The ordered ``actions`` of each stage for one step of ``micro_batches``.

    Its text is what `parse` reads. Nothing is checked here; `check` does.

    Parameters
    ----------
    name : str
        What it is called.
    micro_batches : int
        Of a step.
    placement : Placement
        The stage of each part of the network.
    actions : tuple of tuple of Action
        Of each stage, in order.

    Examples
    --------
    >>> from mpiparallel.pipeline import make_schedule
    >>> print(make_schedule("1f1b", stages=2, micro_batches=2), end="")
    schedule 1f1b
    micro-batches 2
    parts 0 1
    stage 0: F0 F0>1 F1 F1>1 I0<1 I0 W0 I1<1 I1 W1 R U
    stage 1: F0<0 F1<0 F0 I0 I0>0 W0 F1 I1 I1>0 W1 R U
    """

    name: str
    micro_batches: int
    placement: Placement
    actions: tuple[tuple[Action, ...], ...]

    @property
    def stages(self) -> int:
        """Number of stages."""
        return len(self.actions)

    def __str__(self) -> str:
        head = [
            f"schedule {self.name}",
            f"micro-batches {self.micro_batches}",
            f"parts {' '.join(map(str, self.placement.stages))}",
        ]
        lists = (f"stage {stage}: {' '.join(map(str, actions))}" for stage, actions in enumerate(self.actions))
        return "\n".join([*head, *lists, ""])
