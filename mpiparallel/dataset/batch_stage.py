"""Rows stacked to batches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice

import numpy as np

from mpiparallel.dataset.stage import Array, Columns, Row, Stage, check_count
from mpiparallel.errors import DatasetError


class BatchStage:
    """Stacks ``batch_size`` rows along a new first dim; the last batch of an epoch may be smaller, or is dropped."""

    def __init__(self, parent: Stage, batch_size: int, drop_remainder: bool) -> None:
        check_count("batch", "batch_size", batch_size, 1)
        self._parent = parent
        self._drop_remainder = drop_remainder
        self.columns = parent.columns
        self.place = parent.place + 1
        self.batch_size = batch_size

    def size(self) -> int | None:
        """Return the batches of an epoch."""
        size = self._parent.size()
        if size is None:
            return None
        return size // self.batch_size if self._drop_remainder else -(-size // self.batch_size)

    def rows(self, epoch: int, start: int) -> Iterator[Row]:
        """Yield the batches of ``epoch`` from batch ``start`` on."""
        rows = self._parent.rows(epoch, start * self.batch_size)
        while batch := list(islice(rows, self.batch_size)):
            if len(batch) < self.batch_size and self._drop_remainder:
                return
            yield Row(batch[0].number, partial(self._stacked, batch), len(batch))

    def _stacked(self, batch: list[Row]) -> Columns:
        return Columns(self.columns, partial(_stack, batch))


def _stack(batch: list[Row], column: str) -> Array:
    arrays = [row.values[column] for row in batch]
    first = arrays[0]
    for row, array in zip(batch, arrays, strict=True):
        if array.shape != first.shape:
            raise DatasetError(
                f'batch: column "{column}" has shape {first.shape} in row {batch[0].number} and {array.shape} in row '
                f"{row.number}; map an operation that pads or crops it to one shape"
            )
        # Texts may be of different lengths, which are dtypes of their own.
        if array.dtype != first.dtype and not (array.dtype.kind == first.dtype.kind and first.dtype.kind in "SU"):
            raise DatasetError(
                f'batch: column "{column}" is {first.dtype} in row {batch[0].number} and {array.dtype} in row '
                f"{row.number}; map TypeCast to one dtype"
            )
    return np.stack(arrays)
