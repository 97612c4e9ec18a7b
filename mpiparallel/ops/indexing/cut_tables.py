"""What operators share that pick by index along a dim that may be cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.errors import ShapeError
from mpiparallel.graph.cost import Cost
from mpiparallel.graph.execution.runtime import Kernel, Runtime, do_nothing
from mpiparallel.graph.input_checks import normal_axis
from mpiparallel.graph.operator import Operator


def row_places(xp: Any, shape: tuple[int, ...]) -> tuple[Array, ...]:
    """Return, for each dim of an array of indices, the place in it of each index."""
    return tuple(
        xp.broadcast_to(xp.arange(extent).reshape((-1, *(1,) * (len(shape) - dim - 1))), shape)
        for dim, extent in enumerate(shape)
    )


class Indexing(Operator):
    """An operator that picks along dim ``axis`` of a table, of which each rank may hold a part.

    ``first`` is the global index of the first row held here, ``extent`` the number of rows in all. With
    ``manual_split`` the table is cut into so many rows each, and the last dim of the indices with it. Each part of that
    dim has indices of its own rows only.
    """

    axis: int = 0
    first: int = 0
    extent: int = 0
    manual_split: tuple[int, ...] = ()
    in_range: bool = False
    """Whether indices are known to be in range, however they were made."""

    def holding(self, table: Part) -> Any:
        """Return the operator for the rank that holds this part of the table."""
        axis = normal_axis(self.axis, len(table.global_shape))
        return self.configured(axis=axis, first=table.box.start[axis], extent=table.global_shape[axis])

    def sizes(self, table: tuple[str | None, ...], *places: int) -> dict[tuple[int, str], tuple[int, ...]]:
        """Return how long the parts of the table's rows are, for an equation where it has these places."""
        return {(place, str(table[self.axis])): self.manual_split for place in places if self.manual_split}

    def cost(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Cost:
        """Return what it costs: rows are picked, or added to, not multiplied with all indices."""
        largest = max(spec.size for spec in (*inputs, *outputs))
        found = super().cost(inputs, outputs)
        return replace(found, operations=min(found.operations, 2 * largest))

    def bound_check(self, runtime: Runtime, indices: Array) -> Kernel:
        """Return what raises ShapeError when an index is out of range; nothing where that is seen as they are fed."""
        if self.in_range or runtime.looks_when_fed(indices, self._check_fed):
            return do_nothing
        return partial(self.check, runtime, indices)

    def _check_fed(self, indices: np.ndarray[Any, Any]) -> None:
        self._check_extremes([indices.min(), indices.max()])

    def check(self, runtime: Runtime, indices: Array) -> None:
        """Raise ShapeError when an index is out of range of the whole table; a device is waited for, once."""
        if indices.size == 0:
            return
        extremes = runtime.array_module.stack((indices.min(), indices.max()))
        self._check_extremes(runtime.backend.to_host(extremes).tolist())

    def _check_extremes(self, extremes: Sequence[int]) -> None:
        for value in extremes:
            if not 0 <= value < self.extent:
                raise ShapeError(
                    f"{self.scope or self.name}: index {value} is out of range for the {self.extent} elements of dim "
                    f"{self.axis}; give indices of 0 to {self.extent - 1}"
                )

    def held(self, runtime: Runtime, indices: Array, rows: int) -> tuple[Array, Array]:
        """Return the indices counted from the first of the ``rows`` held here, and which of them are held."""
        local = indices.astype(np.int64) - self.first
        found = runtime.array_module.logical_and(local >= 0, local < rows)
        read = runtime.backend.to_host
        if self.manual_split and not bool(read(found.all())):
            strange = int(read(indices)[~read(found)].reshape(-1)[0])
            raise ShapeError(
                f"{self.scope or self.name}: index {strange} is in a part of the last dim "
                f"to which manual_split gives rows {self.first} to {self.first + rows - 1}; give it indices of these"
            )
        return local, found
