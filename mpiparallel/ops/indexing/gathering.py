"""Operators that pick by index: rows of a table, one element of each row, one-hot rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.dtype import is_narrow
from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.input_checks import check_integer, check_shape, normal_axis
from mpiparallel.graph.operator import Kernel, Operator, register
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.written_kernels.row_picks import can_pick, picked_elements, picked_rows, spread_elements
from mpiparallel.graph.written_kernels.row_sums import added_slices
from mpiparallel.graph.written_kernels.written_text import has_written_kernels, run_after
from mpiparallel.layout.layout import bounds_of
from mpiparallel.ops.indexing.batch_gathering import BatchGather
from mpiparallel.ops.indexing.cut_tables import Indexing, row_places

Tensors = Sequence[Tensor]
Names = tuple[str, ...]

_NARROW = 64
"""Elements of a row below which one call for all rows is faster than one call for each."""


def _table_labels(rank: int, axis: int, index_rank: int, fields: bool = False) -> tuple[Names, Names, Names]:
    """Return the labels of the table, of the indices and of the picked rows.

    With ``fields`` the last dim of the indices is cut as the rows are.
    """
    table = tuple(f"d{dim}" for dim in range(rank))
    indices = tuple(f"i{dim}" for dim in range(index_rank))
    if fields:
        indices = (*indices[:-1], table[axis])
    return table, indices, (*table[:axis], *indices, *table[axis + 1 :])


@register
class Gather(Indexing):
    """The slices of ``input_params`` along dim ``axis`` at ``input_indices``, which stand in the place of that dim.

    Dim ``axis`` may be cut: a rank gives zeros for what it does not hold, and the output is the sum.

    Parameters
    ----------
    batch_dims : int
        How many leading dims both have alike: each table in them has indices of its own. A negative number counts from
        the dims of the indices.

    Raises
    ------
    ConfigurationError
        When ``batch_dims`` is no integer.
    ShapeError
        When an index is negative or too large.

    Examples
    --------
    >>> Gather()(np.array([[1, 2], [3, 4]]), np.array([1, 1, 0]), 0).asnumpy().tolist()
    [[3, 4], [3, 4], [1, 2]]
    >>> Gather(batch_dims=1)(np.array([[1, 2], [3, 4]]), np.array([[1], [0]]), 1).asnumpy().tolist()
    [[2], [3]]
    """

    def __init__(self, batch_dims: int = 0) -> None:
        if not isinstance(batch_dims, int):
            raise ConfigurationError(f"Gather: batch_dims={batch_dims!r} must be an integer")
        self.batch_dims = batch_dims

    def add_prim_attr(self, name: str, value: Any) -> Gather:
        """Set how many rows of a table each rank has, and return the operator; other attributes change nothing.

        ``manual_split`` are the numbers of rows, ``manual_split_with_offset`` pairs of them and of the first row's
        index. A strategy then cuts the rows and the last dim of the indices together. Indices in part k of that dim
        must be of the rows of part k: ``Gather().add_prim_attr("manual_split", (1, 7)).shard(((2, 1), (1, 2)))``.
        Raises ConfigurationError when there are other values in it.
        """
        if name not in ("manual_split", "manual_split_with_offset"):
            return super().add_prim_attr(name, value)
        pairs = value if name == "manual_split_with_offset" else [(rows, None) for rows in value]
        rows = tuple(pair[0] for pair in pairs)
        if not rows or any(type(count) is not int or count < 1 for count in rows):
            raise ConfigurationError(f"Gather.add_prim_attr: {name}={value!r} must be numbers of rows of at least 1")
        if any(pair[1] not in (None, start) for pair, (start, _) in zip(pairs, bounds_of(rows), strict=True)):
            raise ConfigurationError(
                f"Gather.add_prim_attr: {name}={value!r}: each offset must be the sum of the rows before it, because "
                "indices count the rows of the whole table"
            )
        self.manual_split = rows
        return self

    def __call__(self, input_params: Any, input_indices: Any, axis: Any = 0) -> Any:
        index_rank = np.ndim(input_indices)
        batch = self.batch_dims + (index_rank if self.batch_dims < 0 else 0)
        if batch < 0:
            raise ShapeError(
                f"batch_dims {self.batch_dims} must be at least -{index_rank}: the indices have no more dims"
            )
        if batch:
            return self.batched(np.ndim(input_params), batch, int(axis))(input_params, input_indices)
        return Operator.__call__(self.configured(axis=int(axis)), input_params, input_indices)

    def batched(self, rank: int, batch: int, axis: int) -> BatchGather:
        """Return the operator for tables of so many dims, of which the first ``batch`` are those of the batch."""
        given = {"strategy": self.strategy, "out_strategy": self.out_strategy, "segment": self.segment}
        return BatchGather(normal_axis(axis, rank), batch).configured(**given)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        table, indices = inputs
        check_integer(input_indices=indices)
        axis = normal_axis(self.axis, len(table.shape))
        if self.manual_split and (not indices.shape or sum(self.manual_split) != table.shape[axis]):
            raise ShapeError(
                f"manual_split {self.manual_split} has {sum(self.manual_split)} rows, the table {table.shape[axis]}; "
                "give all rows, and indices with at least one dim"
            )
        return (TensorSpec((*table.shape[:axis], *indices.shape, *table.shape[axis + 1 :]), table.dtype),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        rank, index_rank = (len(spec.shape) for spec in inputs)
        axis = normal_axis(self.axis, rank)
        table, indices, picked = _table_labels(rank, axis, index_rank, bool(self.manual_split))
        return Equation(
            (table, indices),
            (picked,),
            batch=(*indices, *picked, None)[0],
            order=(*indices, *table),
            repeats_first=frozenset({table[axis]}),
            sizes=self.sizes(table, 0),
        )

    def local(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> Gather:
        operator: Gather = self.holding(inputs[0])
        return operator

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, (table, indices), target, axis = runtime.array_module, inputs, outputs[0], self.axis
        rows = table.shape[axis]
        place = xp.moveaxis(target, tuple(range(axis, axis + indices.ndim)), tuple(range(indices.ndim)))
        check = self.bound_check(runtime, indices)
        if not self.manual_split and can_pick(runtime, indices, table, target):
            dim = normal_axis(axis, table.ndim)
            return run_after([check], picked_rows(runtime, table, indices, target, dim, self.first))

        def run() -> None:
            check()
            if rows == self.extent:
                _take(xp, table, indices, axis, target)
                return
            local, held = self.held(runtime, indices, rows)
            if rows:
                _take(xp, table, local, axis, target)
            place[~held] = 0

        return run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        table, indices = inputs
        return GatherGrad(self.axis).configured(manual_split=self.manual_split)(indices, gradients[0], table), None


def _take(xp: Any, table: Array, indices: Array, axis: int, target: Array) -> None:
    """Take along ``axis``; indices out of range, which the caller overwrites, are clipped."""
    if xp is np:
        xp.take(table, indices, axis=axis, out=target, mode="clip")
    else:
        xp.take(table, indices.clip(0, table.shape[axis] - 1), axis=axis, out=target)


@register
class GatherGrad(Indexing):
    """The gradient of Gather with respect to its table: the slices of ``dy`` added up at their indices.

    The table ``params`` gives shape and layout only. Slices are added in the order of their indices, so the sum is the
    same in every run. A GPU adds them in pieces of a fixed number of slices; each piece is the same in every run.

    Parameters
    ----------
    axis : int
        As of Gather.

    Examples
    --------
    >>> GatherGrad()([1, 1], [[1.0], [2.0]], [[0.0], [0.0], [0.0]]).asnumpy().tolist()
    [[0.0], [3.0], [0.0]]
    """

    def __init__(self, axis: int = 0) -> None:
        self.axis = axis

    def __call__(self, indices: Any, dy: Any, params: Any) -> Any:
        return super().__call__(indices, dy, params)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        _, dy, table = inputs
        return (TensorSpec(table.shape, dy.dtype),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        index_rank, _, rank = (len(spec.shape) for spec in inputs)
        table, indices, picked = _table_labels(rank, normal_axis(self.axis, rank), index_rank, bool(self.manual_split))
        batch, sizes = (*indices, *picked, None)[0], self.sizes(table, 2, 3)
        return Equation((indices, picked, table), (table,), batch=batch, sizes=sizes)

    def local(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> GatherGrad:
        operator: GatherGrad = self.holding(inputs[2])
        return operator

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, (indices, dy, _), target, axis = runtime.array_module, inputs, outputs[0], self.axis
        rows = target.shape[axis]
        slices = xp.moveaxis(dy, tuple(range(axis, axis + indices.ndim)), tuple(range(indices.ndim)))
        place = xp.moveaxis(target, axis, 0)
        if has_written_kernels(runtime, dy.dtype):
            find_rows = self._row_finder(runtime, indices, rows)
            return added_slices(runtime, find_rows, indices.shape, slices, place, 1)
        add_slices = _add_each_slice if xp is np and place[:1].size >= _NARROW else _add_slices
        check, is_short = self.bound_check(runtime, indices), is_narrow(dy.dtype)

        def run() -> None:
            total = runtime.scratch(tuple(place.shape), np.float32) if is_short else place
            total.fill(0)
            check()
            local, added = indices.reshape(-1), slices.reshape(indices.size, *slices.shape[indices.ndim :])
            if rows != self.extent:
                local, held = self.held(runtime, local, rows)
                local, added = local[held], added[held]
            add_slices(xp, total, local, added.astype(total.dtype, copy=False))
            if is_short:
                xp.copyto(place, total, casting="unsafe")

        return run

    def _row_finder(self, runtime: Runtime, indices: Array, rows: int) -> Callable[[Array], None]:
        """Return what counts the indices from the first row held here, after a look at them."""
        xp, check = runtime.array_module, self.bound_check(runtime, indices)

        def find_rows(found: Array) -> None:
            check()
            if self.manual_split:
                self.held(runtime, indices, rows)
            xp.subtract(indices, np.int64(self.first), out=found, casting="unsafe")

        return find_rows


def _add_slices(xp: Any, target: Array, indices: Array, slices: Array) -> None:
    xp.add.at(target, indices, slices)


def _add_each_slice(xp: Any, target: Array, indices: Array, slices: Array) -> None:
    for index, piece in zip(indices.tolist(), slices, strict=True):
        row = target[index, ...]
        xp.add(row, piece, out=row)


@register
class GatherLast(Indexing):
    """One element of the last dim of ``x`` for each place in the others: ``x[..., index]``, as a loss picks its label.

    ``x`` has shape (..., v) and ``index`` the shape (...). Dim v may be cut: a rank gives zeros for what it does not
    hold, and the output is the sum.

    Raises
    ------
    ShapeError
        When an index is negative or too large.

    Examples
    --------
    >>> GatherLast()(np.array([[1, 2], [3, 4]]), np.array([1, 0])).asnumpy()
    array([2, 3])
    """

    axis = -1

    def __call__(self, x: Any, index: Any) -> Any:
        return super().__call__(x, index)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        x, index = inputs
        check_integer(index=index)
        check_shape(x.shape[:-1], index=index)
        return (TensorSpec(index.shape, x.dtype),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        labels: Labels = tuple(f"d{dim}" for dim in range(len(inputs[0].shape)))
        return Equation((labels, labels[:-1]), (labels[:-1],), batch=labels[0])

    def local(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> GatherLast:
        operator: GatherLast = self.holding(inputs[0])
        return operator

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, (x, index), target = runtime.array_module, inputs, outputs[0]
        check = self.bound_check(runtime, index)
        if can_pick(runtime, index, x, target):
            return run_after([check], picked_elements(runtime, x, index, target, self.first))

        def run() -> None:
            check()
            local, held = self.held(runtime, index, x.shape[-1])
            if x.shape[-1] == 0:
                target.fill(0)
                return
            picked = xp.take_along_axis(x, local.clip(0, x.shape[-1] - 1)[..., None], -1)[..., 0]
            xp.copyto(target, xp.where(held, picked, x.dtype.type(0)))

        return run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        x, index = inputs
        return GatherLastGrad()(gradients[0], index, x), None


@register
class GatherLastGrad(Indexing):
    """Zeros of the shape of ``x`` with ``dy`` at the places that GatherLast picked.

    Examples
    --------
    >>> GatherLastGrad()([5.0], [1], [[1.0, 2.0]]).asnumpy().tolist()
    [[0.0, 5.0]]
    """

    axis = -1

    def __call__(self, dy: Any, index: Any, x: Any) -> Any:
        return super().__call__(dy, index, x)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return (TensorSpec(inputs[2].shape, inputs[0].dtype),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        labels: Labels = tuple(f"d{dim}" for dim in range(len(inputs[2].shape)))
        return Equation((labels[:-1], labels[:-1], labels), (labels,), batch=labels[0])

    def local(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> GatherLastGrad:
        operator: GatherLastGrad = self.holding(inputs[2])
        return operator

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, (dy, index, _), target = runtime.array_module, inputs, outputs[0]
        rows, check = row_places(xp, (1, *index.shape)), self.bound_check(runtime, index)
        if can_pick(runtime, index, dy, target):
            return run_after([check], spread_elements(runtime, dy, index, target, self.first))

        def run() -> None:
            check()
            local, held = self.held(runtime, index, target.shape[-1])
            target.fill(0)
            if target.shape[-1]:
                kept = xp.where(held, dy, dy.dtype.type(0))
                target[None][(*rows, local.clip(0, target.shape[-1] - 1)[None])] = kept[None]

        return run
