"""How long the stages of a pipeline compute, and their messages travel."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite

from mpiparallel.errors import ScheduleError


@dataclass(frozen=True)
class Costs:
    """Times of one micro-batch on each stage, in any unit: all chunks of a stage together, a message that it sends.

    A chunk takes an equal share of its stage.

    Parameters
    ----------
    forward, input_gradient, weight_gradient, message : tuple of float
        For each stage.

    Raises
    ------
    ScheduleError
        For times that are none, or not one for each stage.

    Examples
    --------
    >>> Costs.even(2, weight_gradient=0.5).work
    (2.5, 2.5)
    """

    forward: tuple[float, ...]
    input_gradient: tuple[float, ...]
    weight_gradient: tuple[float, ...]
    message: tuple[float, ...]

    def __post_init__(self) -> None:
        for field in fields(self):
            times = getattr(self, field.name)
            if len(times) != len(self.forward):
                raise ScheduleError(
                    f"costs: {field.name} has times of {len(times)} stages, forward of {len(self.forward)}; give each "
                    "stage one"
                )
            for stage, time in enumerate(times):
                if not (isfinite(time) and time >= 0):
                    raise ScheduleError(f"costs: {field.name} of stage {stage} is {time}; give a time of 0 or more")

    @classmethod
    def even(
        cls,
        stages: int,
        forward: float = 1.0,
        input_gradient: float = 1.0,
        weight_gradient: float = 1.0,
        message: float = 0.0,
    ) -> Costs:
        """Return costs that are the same on each of ``stages``."""
        return cls(*((time,) * stages for time in (forward, input_gradient, weight_gradient, message)))

    @property
    def work(self) -> tuple[float, ...]:
        """Computing time of one micro-batch on each stage."""
        return tuple(map(sum, zip(self.forward, self.input_gradient, self.weight_gradient, strict=True)))
