"""Convolutions by an array library alone: images are copied to columns, a few at a time, which BLAS multiplies."""

from __future__ import annotations

from functools import partial
from math import prod

from mpiparallel.backend.protocol import Array
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.operator import Kernel
from mpiparallel.ops.images.convolution.columns import ColumnMatrices, run_all
from mpiparallel.ops.images.window import WindowsOfImage


@dataclass(frozen=True)
class ColumnConvolution:
    """A convolution in ``group`` groups, and its gradients, on arrays in C order."""

    runtime: Runtime
    windows: WindowsOfImage
    group: int

    def forward(self, x: Array, weight: Array, y: Array) -> Kernel:
        """Return what sets ``y``: the weights times the columns."""
        columns = ColumnMatrices.of(self.runtime, self.group, self.windows, x, weight)
        matrices = columns.weights(weight)
        if columns.are_elements:
            shape = (len(x), self.group, -1, prod(self.windows.output))
            return partial(self.runtime.array_module.matmul, matrices, x.reshape(shape), out=y.reshape(shape))
        blocks = (self._forward(columns, matrices, x, y, rows) for rows in columns.blocks(len(x)))
        return partial(run_all, [step for block in blocks for step in block])

    def _forward(self, columns: ColumnMatrices, matrices: Array, x: Array, y: Array, rows: slice) -> list[Kernel]:
        xp, images = self.runtime.array_module, rows.stop - rows.start
        fill, filled = columns.filling(x, rows, 1)
        if images == 1:
            target = y[rows].reshape(columns.group, columns.outputs // columns.group, prod(y.shape[2:]))
            return [fill, partial(xp.matmul, matrices, filled, out=target)]
        shown, product = columns.scratch_outputs(images, y.dtype, 3)
        return [fill, partial(xp.matmul, matrices, filled, out=product), partial(xp.copyto, y[rows], shown)]

    def input_gradient(self, dy: Array, weight: Array, dx: Array) -> Kernel:
        """Return what sets ``dx``: the weights' transpose times ``dy`` gives columns, which are added up."""
        columns = ColumnMatrices.of(self.runtime, self.group, self.windows, dx, weight)
        matrices = columns.weights(weight).swapaxes(1, 2)
        if columns.are_elements:
            shape = (len(dy), self.group, -1, prod(self.windows.output))
            return partial(self.runtime.array_module.matmul, matrices, dy.reshape(shape), out=dx.reshape(shape))
        blocks = (self._input_gradient(columns, matrices, dy, dx, rows) for rows in columns.blocks(len(dx)))
        return partial(run_all, [step for block in blocks for step in block])

    def _input_gradient(
        self, columns: ColumnMatrices, matrices: Array, dy: Array, dx: Array, rows: slice
    ) -> list[Kernel]:
        xp, images, windows = self.runtime.array_module, rows.stop - rows.start, self.windows
        take, taken = columns.taking(dy, rows, 1)
        array, product = columns.scratch_columns(images, dx.dtype, 2)
        target = dx[rows]
        padded = columns.padded(images, dx.dtype, 3) if windows.has_padding else target
        height, width = windows.window.kernel
        terms = [array[:, row, column].swapaxes(0, 1) for row in range(height) for column in range(width)]
        taps = list(zip(windows.taps(padded), terms, strict=True))

        def add() -> None:
            padded.fill(0)
            for tap, term in taps:
                xp.add(tap, term, out=tap)
            if windows.has_padding:
                xp.copyto(target, windows.interior(padded))

        return [*([take] if take else []), partial(xp.matmul, matrices, taken, out=product), add]

    def weight_gradient(self, dy: Array, x: Array, dw: Array) -> Kernel:
        """Return what sets ``dw``: ``dy`` times the columns' transpose.

        Images are copied to columns again rather than kept so.
        """
        xp, columns = self.runtime.array_module, ColumnMatrices.of(self.runtime, self.group, self.windows, x, dw)
        matrices = columns.weights(dw)
        term = self.runtime.scratch(tuple(matrices.shape), dw.dtype, 0)
        steps: list[Kernel] = []
        for rows in columns.blocks(len(x)):
            take, taken = columns.taking(dy, rows, 1)
            fill, filled = columns.filling(x, rows, 2)
            target = term if rows.start else matrices
            steps += [*([take] if take else []), fill, partial(xp.matmul, taken, filled.swapaxes(1, 2), out=target)]
            if rows.start:
                steps.append(partial(xp.add, matrices, term, out=matrices))
        return partial(run_all, steps)
