"""Operations on columns, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from mpiparallel.dataset.random_key import RandomKey
from mpiparallel.dataset.stage import Columns, Row, Stage, as_array, check_columns, check_distinct
from mpiparallel.dataset.transforms.compose import Compose
from mpiparallel.errors import DatasetError


class MapStage:
    """Replaces the input columns of each row by what the operations give for them.

    As many outputs as inputs take the inputs' places. Otherwise the outputs come first, the untouched columns follow.
    """

    def __init__(
        self,
        parent: Stage,
        operations: Sequence[Callable[..., Any]],
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        seed: int,
    ) -> None:
        check_columns("map", inputs, parent.columns)
        self._parent = parent
        self._operations = Compose(operations)
        self._inputs = inputs
        self._outputs = outputs
        self.place = parent.place + 1
        self.batch_size = parent.batch_size
        self.columns = self._output_order()
        check_distinct("map", self.columns)
        self._key = RandomKey(seed, self.place)

    def _output_order(self) -> tuple[str, ...]:
        if len(self._inputs) == len(self._outputs):
            renamed = dict(zip(self._inputs, self._outputs, strict=True))
            return tuple(renamed.get(column, column) for column in self._parent.columns)
        return self._outputs + tuple(column for column in self._parent.columns if column not in self._inputs)

    @property
    def is_random(self) -> bool:
        """Whether an operation draws random numbers."""
        return self._operations.random

    def size(self) -> int | None:
        """Return the parent's rows."""
        return self._parent.size()

    def rows(self, epoch: int, start: int) -> Iterator[Row]:
        """Yield the parent's rows with the outputs in them."""
        # Operations may make more or fewer rows of a batch; all columns of it have as many.
        keeps = not set(self.columns) <= set(self._outputs)
        for row in self._parent.rows(epoch, start):
            yield Row(row.number, partial(self._mapped, row, epoch), row.stacked if keeps else None)

    def _mapped(self, row: Row, epoch: int) -> Columns:
        made: dict[str, Any] = {}

        def value(column: str) -> Any:
            if column not in self._outputs:
                return row.values[column]
            if not made:
                made.update(self._apply(row, epoch))
            return made[column]

        return Columns(self.columns, value)

    def _apply(self, row: Row, epoch: int) -> dict[str, Any]:
        where = f"map: {self._operations!r} on {', '.join(self._inputs)} in row {row.number}"
        generator = self._key.generator(epoch, row.number) if self._operations.random else None
        try:
            result = self._operations(*(row.values[column] for column in self._inputs), generator=generator)
        except Exception as error:
            raise DatasetError(f"{where}: {type(error).__name__}: {error}") from error
        results = result if isinstance(result, tuple) else (result,)
        if len(results) != len(self._outputs):
            raise DatasetError(
                f"{where} gave {len(results)} values for {len(self._outputs)} output columns "
                f"({', '.join(self._outputs)}); give output_columns one name for each value"
            )
        return {column: as_array(where, column, value) for column, value in zip(self._outputs, results, strict=True)}
