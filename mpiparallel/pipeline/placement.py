"""Which stage holds which part of the network."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from mpiparallel.errors import ScheduleError


@dataclass(frozen=True)
class Placement:
    """The stage of each part of the network, in the order in which a micro-batch passes the parts.

    The parts of one stage are its chunks, numbered in that order.

    Parameters
    ----------
    stages : tuple of int
        The stage of each part.

    Raises
    ------
    ScheduleError
        Unless each stage from 0 to the highest has one at least.

    Examples
    --------
    >>> Placement.loops(4, 2).stages, Placement.v_shape(4).stages
    ((0, 1, 2, 3, 0, 1, 2, 3), (0, 1, 2, 3, 3, 2, 1, 0))
    """

    stages: tuple[int, ...]

    def __post_init__(self) -> None:
        found = set(self.stages)
        if not found or found != set(range(len(found))):
            raise ScheduleError(
                f"parts {' '.join(map(str, self.stages))}: name the stage of each part, and no stage without a part: "
                "0 1 2 for three stages, 0 1 1 0 for two with two chunks each"
            )

    @classmethod
    def loops(cls, stages: int, chunks: int = 1) -> Placement:
        """Return the placement that passes all stages in turn, once a chunk."""
        return cls(tuple(range(stages)) * chunks)

    @classmethod
    def v_shape(cls, stages: int) -> Placement:
        """Return the placement that goes from the first stage to the last and back: two chunks a stage."""
        return cls((*range(stages), *reversed(range(stages))))

    @cached_property
    def parts(self) -> tuple[tuple[int, ...], ...]:
        """The parts that each stage holds, by chunk.

        >>> Placement.v_shape(2).parts
        ((0, 3), (1, 2))
        """
        found: list[list[int]] = [[] for _ in set(self.stages)]
        for part, stage in enumerate(self.stages):
            found[stage].append(part)
        return tuple(map(tuple, found))

    @cached_property
    def chunks(self) -> tuple[int, ...]:
        """Which chunk of its stage each part is.

        >>> Placement.v_shape(2).chunks
        (0, 0, 1, 1)
        """
        return tuple(self.parts[stage].index(part) for part, stage in enumerate(self.stages))

    def before(self, stage: int, chunk: int) -> int | None:
        """Return the stage that holds the part before a chunk, None before the first part."""
        part = self.parts[stage][chunk]
        return self.stages[part - 1] if part else None

    def behind(self, stage: int, chunk: int) -> int | None:
        """Return the stage that holds the part behind a chunk, None behind the last part."""
        part = self.parts[stage][chunk]
        return self.stages[part + 1] if part + 1 < len(self.stages) else None
