"""What stands in for data that a simulated program does not have: zeros of the right shapes, which need no memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.context.simulation import current_simulation
from mpiparallel.dataset.stage import Array
from mpiparallel.errors import DatasetError


def is_absent(folder: str | Path) -> bool:
    """Return whether the files of a dataset are not there and need not be, as the program is only simulated."""
    return current_simulation() is not None and not Path(folder).exists()


class StandIn:
    """So many samples that are all zeros, of one shape and dtype a column.

    >>> samples = StandIn(3, (TensorSpec((2,), np.dtype(np.uint8)), TensorSpec((), np.dtype(np.uint32))))
    >>> len(samples), samples[1]
    (3, (array([0, 0], dtype=uint8), array(0, dtype=uint32)))
    """

    def __init__(self, length: int, columns: Sequence[TensorSpec]) -> None:
        self._length = length
        self._sample = tuple(zeros(spec) for spec in columns)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> tuple[Array, ...]:
        return self._sample


def zeros(spec: TensorSpec) -> np.ndarray[Any, Any]:
    """Return an array of zeros that needs the memory of one."""
    return np.broadcast_to(np.zeros((), spec.dtype), spec.shape)


def given_batch(columns: Sequence[str]) -> dict[str, Array] | None:
    """Return the batch of a dataset with these columns that a simulation has been told; None where it was told none.

    Raises DatasetError where it was told of other columns.
    """
    simulation = current_simulation()
    if simulation is None or not simulation.inputs:
        return None
    inputs = simulation.inputs
    if set(inputs) != set(columns):
        raise DatasetError(
            f"--input: the dataset has the columns {', '.join(columns)}, but {', '.join(inputs)} were given; give each "
            "column of a batch its shape, as in --input image=256,3,224,224:float32"
        )
    return {column: zeros(inputs[column]) for column in columns}
