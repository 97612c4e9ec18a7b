"""What kernels of one name take, told from some that were measured."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

import numpy as np

from mpiparallel.graph.cost import Cost
from mpiparallel.search.machine.kernel_times import PARTS, KernelTimes

Array = np.ndarray[Any, Any]
_WORTH: Final = 0.005
"""By how much a part must bring the seconds nearer, on average and of them, to be taken in."""


class MeasuredKernel(NamedTuple):
    """What a kernel costs, how many arrays it is given, and the seconds that it took."""

    cost: Cost
    operands: int
    seconds: float


def fitted_times(name: str, measured: Sequence[MeasuredKernel]) -> KernelTimes:
    """Return the times that tell what was measured best: none below 0, the squares of relative errors least.

    >>> found = fitted_times("MaxPool", [MeasuredKernel(Cost(2), 2, 3.0), MeasuredKernel(Cost(6), 2, 7.0)])
    >>> (found.call, found.operand, found.operations)
    (1.0, 0.0, 1.0)
    """
    rows = np.array([[1.0, one.operands, *(getattr(one.cost, part) for part in PARTS[2:])] for one in measured])
    relative = rows / np.array([one.seconds for one in measured])[:, None]
    used = [column for column in range(len(PARTS)) if relative[:, column].any()]
    best, found = np.inf, np.zeros(len(PARTS))
    for count in range(1, min(len(used), len(rows)) + 1):
        for columns in combinations(used, count):
            answer = _solved(relative[:, columns])
            if answer.min() < 0:
                continue
            error = float(np.sqrt(np.mean((relative[:, columns] @ answer - 1) ** 2))) + _WORTH * count
            if error < best:
                best, found = error, np.zeros(len(PARTS))
                found[list(columns)] = answer
    return KernelTimes(name, **{part: float(f"{number:.6g}") for part, number in zip(PARTS, found, strict=True)})


def _solved(rows: Array) -> Array:
    """Return what makes each row add up to 1 most nearly; its columns are of very different sizes."""
    scales = np.abs(rows).max(axis=0)
    answer: Array = np.linalg.lstsq(rows / scales, np.ones(len(rows)), rcond=None)[0] / scales
    return answer
