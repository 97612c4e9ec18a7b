"""What the demo has shown: the phases, whether their losses agree, and what the move cost, read and told in words."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mpiparallel.dataclass import dataclass

_FIRST_STEPS = 20
# The largest relative difference that is promised between losses of two cuts: over the first steps, and over all.
_LIMITS = {"float32": (2e-5, 1e-3), "float64": (1e-9, 1e-9)}

Corners = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Phase:
    """A stretch of training on one cut; ``first_step`` counts from 1."""

    ranks: int
    data_parallel: int
    model_parallel: int
    optimizer_parallel: bool
    first_step: int
    losses: Sequence[float]
    seconds_per_step: float

    @property
    def cut(self) -> str:
        """How the network was cut, in a few characters."""
        if self.ranks == 1:
            return "-"
        return f"dp{self.data_parallel} x mp{self.model_parallel}" + (" + opt" if self.optimizer_parallel else "")

    @property
    def last_step(self) -> int:
        """The step that the phase ended with."""
        return self.first_step + len(self.losses) - 1


@dataclass(frozen=True)
class ParameterSlices:
    """The first and last corner of what each rank holds of one parameter, before and after the move."""

    name: str
    shape: tuple[int, ...]
    before: Sequence[Corners]
    after: Sequence[Corners]


@dataclass(frozen=True)
class LossComparison:
    """The largest relative difference of losses over the steps up to ``last_step``, and how large it may be."""

    last_step: int
    difference: float
    limit: float

    @property
    def holds(self) -> bool:
        """Whether the difference is within the limit; what is not a number is not."""
        return self.difference <= self.limit


@dataclass(frozen=True)
class DemoReport:
    """All that the demo has shown: ``alone`` on one rank, ``before`` and ``after`` the move of the other job."""

    dtype: str
    alone: Phase
    before: Phase
    after: Phase
    bytes_moved: int
    bytes_kept: int
    reshard_seconds: float
    slices: Sequence[ParameterSlices]

    @classmethod
    def load(cls, dtype: str, alone: Path, moving: Path) -> DemoReport:
        """Return what the reports ``alone`` and ``moving`` say, which the two jobs wrote."""
        uncut = json.loads(alone.read_text(encoding="utf-8"))
        found: Mapping[str, Any] = json.loads(moving.read_text(encoding="utf-8"))
        before, after = (Phase(**phase) for phase in found["phases"])
        return cls(
            dtype,
            Phase(**uncut["phases"][0]),
            before,
            after,
            found["bytes_moved"],
            found["bytes_kept"],
            found["reshard_seconds"],
            [ParameterSlices(**slices) for slices in found["slices"]],
        )

    @property
    def losses(self) -> list[float]:
        """The losses of the job that moved, of both its phases."""
        return [*self.before.losses, *self.after.losses]

    @property
    def differences(self) -> list[float]:
        """How far each loss is from that of the one rank, relative to it; infinite where one is not a number."""
        pairs = zip(self.alone.losses, self.losses, strict=True)
        found = [abs(moved - alone) / abs(alone) for alone, moved in pairs]
        return [value if math.isfinite(value) else math.inf for value in found]

    @property
    def checks(self) -> list[LossComparison]:
        """What is promised of the losses, over the first steps and over all."""
        differences = self.differences
        lengths = sorted({min(_FIRST_STEPS, len(differences)), len(differences)})
        limits = _LIMITS[self.dtype]
        return [
            LossComparison(length, max(differences[:length]), limit)
            for length, limit in zip(lengths, limits, strict=False)
        ]

    @property
    def document(self) -> dict[str, Any]:
        """All of it as values of JSON: seconds, bytes, and whether what is promised of the losses holds."""
        checks = [{**asdict(check), "holds": check.holds} for check in self.checks]
        return {**asdict(self), "checks": checks, "holds": all(check.holds for check in self.checks)}

    def __str__(self) -> str:
        """Return the tables that end the demo."""
        return "\n\n".join([self._phases(), self._checks(), self._move()])

    def _phases(self) -> str:
        names = ("one rank", f"{self.before.ranks} ranks", f"then {self.after.ranks} ranks")
        rows = [("phase", "ranks", "cut", "steps", "loss, first -> last", "ms/step")]
        for name, phase in zip(names, (self.alone, self.before, self.after), strict=True):
            losses = f"{phase.losses[0]:.6f} -> {phase.losses[-1]:.6f}"
            steps = f"{phase.first_step}-{phase.last_step}"
            rows.append((name, str(phase.ranks), phase.cut, steps, losses, f"{phase.seconds_per_step * 1e3:.1f}"))
        return _table(rows, right=(1, 5))

    def _checks(self) -> str:
        rows = [("relative difference of losses", "largest", "promised", "")]
        for check in self.checks:
            verdict = "OK" if check.holds else "EXCEEDED"
            rows.append((f"steps 1-{check.last_step}", f"{check.difference:.1e}", f"{check.limit:.0e}", verdict))
        return _table(rows, right=(1, 2))

    def _move(self) -> str:
        return (
            f"The move: weights and optimizer state from {self.before.ranks} ranks to {self.after.ranks}, live, in "
            f"{self.reshard_seconds:.2f} s:\n{_megabytes(self.bytes_moved)} went from rank to rank, "
            f"{_megabytes(self.bytes_kept)} stayed where they were."
        )


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


def _table(rows: Sequence[Sequence[str]], right: Sequence[int]) -> str:
    """Return ``rows`` as text, the first as heading, with the columns ``right`` aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in [rows[0], ["-" * width for width in widths], *rows[1:]]:
        cells = [
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
