"""Columns chosen, put in order and renamed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from mpiparallel.dataset.stage import Columns, Row, Stage, check_columns, check_distinct
from mpiparallel.errors import DatasetError


class ColumnStage:
    """Keeps the parent's columns ``kept``, in that order, under new names."""

    def __init__(self, parent: Stage, kept: tuple[str, ...], columns: tuple[str, ...]) -> None:
        self._parent = parent
        self._kept = kept
        self.columns = columns
        self.place = parent.place + 1
        self.batch_size = parent.batch_size

    def size(self) -> int | None:
        """Return the parent's rows."""
        return self._parent.size()

    def rows(self, epoch: int, start: int) -> Iterator[Row]:
        """Yield the parent's rows with these columns only."""
        for row in self._parent.rows(epoch, start):
            yield Row(row.number, partial(self._chosen, row), row.stacked)

    def _chosen(self, row: Row) -> Columns:
        old = dict(zip(self.columns, self._kept, strict=True))
        return Columns(self.columns, lambda column: row.values[old[column]])


def project(parent: Stage, kept: tuple[str, ...]) -> ColumnStage:
    """Return a stage with the columns ``kept``."""
    if not kept:
        raise DatasetError(f"project: no column is named; the columns are {', '.join(parent.columns)}")
    check_columns("project", kept, parent.columns)
    return ColumnStage(parent, kept, kept)


def rename(parent: Stage, old: tuple[str, ...], new: tuple[str, ...]) -> ColumnStage:
    """Return a stage with the columns ``old`` named ``new``."""
    check_columns("rename", old, parent.columns)
    if len(old) != len(new):
        raise DatasetError(f"rename: {len(old)} input_columns but {len(new)} output_columns; give a new name for each")
    renamed = dict(zip(old, new, strict=True))
    columns = tuple(renamed.get(column, column) for column in parent.columns)
    check_distinct("rename", columns)
    return ColumnStage(parent, tuple(parent.columns), columns)
