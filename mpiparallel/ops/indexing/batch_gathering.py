"""Picking slices of tables, each table of a batch by indices of its own, and the gradient of it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.dtype import is_narrow
from mpiparallel.errors import ShapeError
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.input_checks import check_integer, check_shape
from mpiparallel.graph.operator import Kernel
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.written_kernels.row_sums import added_slices
from mpiparallel.graph.written_kernels.written_text import has_written_kernels
from mpiparallel.ops.indexing.cut_tables import Indexing, row_places

Tensors = Sequence[Tensor]


class Batched(Indexing):
    """What picking and its gradient share: the first ``batch_dims`` dims of table and indices go together."""

    def __init__(self, axis: int, batch_dims: int) -> None:
        self.axis = axis
        self.batch_dims = batch_dims

    def labels(self, rank: int, index_rank: int) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Return the labels of the table, of the indices and of the picked slices."""
        table = tuple(f"d{dim}" for dim in range(rank))
        inner = tuple(f"i{dim}" for dim in range(self.batch_dims, index_rank))
        return table, (*table[: self.batch_dims], *inner), (*table[: self.axis], *inner, *table[self.axis + 1 :])

    def rows_first(self, xp: Any, table: Array) -> Array:
        """Return the table with dim ``axis`` right after the dims of the batch."""
        return xp.moveaxis(table, self.axis, self.batch_dims)

    def picked_first(self, xp: Any, picked: Array, index_rank: int) -> Array:
        """Return picked slices with the dims of the indices right after those of the batch."""
        inner = index_rank - self.batch_dims
        return xp.moveaxis(
            picked, tuple(range(self.axis, self.axis + inner)), tuple(range(self.batch_dims, self.batch_dims + inner))
        )

    def tables(self, xp: Any, indices: Array) -> tuple[Array, ...]:
        """Return, for each dim of the batch, the place in it of each index."""
        return row_places(xp, indices.shape)[: self.batch_dims]


class BatchGather(Batched):
    """Gather with ``batch_dims``: ``params[b, indices[b]]`` where that picks along dim 0 of each table."""

    @property
    def name(self) -> str:
        """The name of what the program calls."""
        return "Gather"

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        table, indices = inputs
        check_integer(input_indices=indices)
        batch = self.batch_dims
        if not 0 < batch <= self.axis < len(table.shape) or batch > len(indices.shape):
            raise ShapeError(
                f"batch_dims {batch} must be at most axis {self.axis} and the {len(indices.shape)} dims of the indices"
            )
        check_shape(table.shape[:batch], input_indices=TensorSpec(indices.shape[:batch], indices.dtype))
        inner = indices.shape[batch:]
        return (TensorSpec((*table.shape[: self.axis], *inner, *table.shape[self.axis + 1 :]), table.dtype),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        table, indices, picked = self.labels(*(len(spec.shape) for spec in inputs))
        return Equation((table, indices), (picked,), batch=table[0], order=(*indices, *table))

    def local(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> BatchGather:
        operator: BatchGather = self.holding(inputs[0])
        return operator

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, (table, indices) = runtime.array_module, inputs
        rows, target = self.rows_first(xp, table), self.picked_first(xp, outputs[0], indices.ndim)
        batch, count = self.tables(xp, indices), table.shape[self.axis]
        check = self.bound_check(runtime, indices)

        def run() -> None:
            check()
            local, held = self.held(runtime, indices, count)
            if count:
                xp.copyto(target, rows[(*batch, local.clip(0, count - 1))])
            target[~held] = 0

        return run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        table, indices = inputs
        return BatchGatherGrad(self.axis, self.batch_dims)(indices, gradients[0], table), None


class BatchGatherGrad(Batched):
    """The gradient of BatchGather with respect to its table, of which shape and layout alone count."""

    unread = (2,)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return (TensorSpec(inputs[2].shape, inputs[1].dtype),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        indices_spec, _, table_spec = inputs
        table, indices, picked = self.labels(len(table_spec.shape), len(indices_spec.shape))
        return Equation((indices, picked, table), (table,), batch=table[0])

    def local(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> BatchGatherGrad:
        operator: BatchGatherGrad = self.holding(inputs[2])
        return operator

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, (indices, dy, _), target = runtime.array_module, inputs, outputs[0]
        rows, slices = self.rows_first(xp, target), self.picked_first(xp, dy, indices.ndim)
        batch, count = self.tables(xp, indices), target.shape[self.axis]
        check, is_short = self.bound_check(runtime, indices), is_narrow(dy.dtype)
        if has_written_kernels(runtime, dy.dtype):
            starts = sum(places * prod(rows.shape[dim + 1 : self.batch_dims + 1]) for dim, places in enumerate(batch))

            def find_rows(found: Array) -> None:
                check()
                local, held = self.held(runtime, indices, count)
                xp.copyto(found, xp.where(held, local + starts, -1))

            return added_slices(runtime, find_rows, indices.shape, slices, rows, self.batch_dims + 1)

        def run() -> None:
            total = runtime.scratch(tuple(rows.shape), np.float32) if is_short else rows
            total.fill(0)
            check()
            local, held = self.held(runtime, indices, count)
            added = slices[held].astype(total.dtype, copy=False)
            xp.add.at(total, (*(places[held] for places in batch), local[held]), added)
            if is_short:
                xp.copyto(rows, total, casting="unsafe")

        return run
