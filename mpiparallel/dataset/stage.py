"""What every stage of a dataset pipeline is: named columns, a size, and rows of any epoch from any start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mpiparallel.errors import DatasetError

Array = npt.NDArray[Any]


class Columns(Mapping[str, Array]):
    """The array of each of ``names``, each made when it is first asked for: ``make`` returns that of one."""

    __slots__ = ("_made", "_make", "_names")

    def __init__(self, names: tuple[str, ...], make: Callable[[str], Array]) -> None:
        self._names = names
        self._make = make
        self._made: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Row:
    """One row: its number, which is the same in every shard of the samples, and the array of each column.

    ``stacked`` is how many rows were stacked to it, None where only its arrays tell. The arrays are made when they are
    first asked for. So a row that a resume skips costs nothing, nor does a column that nobody wants. Only a source that
    reads all of a row at once makes all of them.
    """

    __slots__ = ("_make", "_values", "number", "stacked")

    def __init__(self, number: int, make: Callable[[], Mapping[str, Array]], stacked: int | None = None) -> None:
        self.number = number
        self.stacked = stacked
        self._make: Callable[[], Mapping[str, Array]] | None = make
        self._values: Mapping[str, Array] = {}

    @property
    def values(self) -> Mapping[str, Array]:
        """Return the array of each column."""
        if self._make is not None:
            self._values, self._make = self._make(), None
        return self._values


class Stage(Protocol):
    """A step of the pipeline. ``place`` counts the steps before it; ``batch_size`` is 1 before the first batch."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def place(self) -> int: ...

    @property
    def batch_size(self) -> int: ...

    def size(self) -> int | None:
        """Return the rows of one epoch, None if it has no end."""

    def rows(self, epoch: int, start: int) -> Iterator[Row]:
        """Yield the rows of ``epoch`` from row ``start`` on."""


def check_columns(operation: str, wanted: Sequence[str], columns: Sequence[str]) -> None:
    """Raise DatasetError if a wanted column is not there or is named twice."""
    for column in wanted:
        if column not in columns:
            raise DatasetError(f'{operation}: there is no column "{column}"; the columns are {", ".join(columns)}')
    check_distinct(operation, wanted)


def check_distinct(operation: str, columns: Sequence[str]) -> None:
    """Raise DatasetError if a column name is used twice."""
    for column in columns:
        if columns.count(column) > 1:
            raise DatasetError(f'{operation}: column "{column}" is named twice; give every column its own name')


def check_count(operation: str, parameter: str, value: int, least: int) -> None:
    """Raise DatasetError if ``value`` is not an integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise DatasetError(f"{operation}: {parameter} is {value!r}; give an integer of {least} or more")


def as_array(operation: str, column: str, value: object) -> Array:
    """Return ``value`` as a NumPy array.

    Raises:
        DatasetError: if it is ragged, or no array of numbers or text.
    """
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise DatasetError(
            f'{operation}: column "{column}": the value is no array ({error}); make its rows equally long'
        ) from error
    if array.dtype == object:
        raise DatasetError(
            f'{operation}: column "{column}": a {type(value).__name__} is no array of numbers or text; '
            "turn it into numbers first"
        )
    return array
