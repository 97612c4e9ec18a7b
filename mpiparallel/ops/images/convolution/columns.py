"""Images taken apart into columns, so that a convolution of them is a matrix product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import prod
from typing import Any

from mpiparallel.backend.protocol import Array
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.operator import Kernel
from mpiparallel.ops.images.window import WindowsOfImage

_COLUMNS = {"cpu": 512}
"""Windows that one product takes at least: fewer leave it waiting for memory. An accelerator takes many more."""


@dataclass(frozen=True)
class ColumnMatrices:
    """Images as matrices with a column for each window, a few images at a time in scratch memory that is used again.

    ``images`` are taken at once; ``inputs`` and ``outputs`` are the channels held here.
    """

    runtime: Runtime
    group: int
    windows: WindowsOfImage
    images: int
    inputs: int
    outputs: int

    @classmethod
    def of(cls, runtime: Runtime, group: int, windows: WindowsOfImage, x: Array, weight: Array) -> ColumnMatrices:
        """Return how images of the shape of ``x`` are taken apart."""
        wanted = _COLUMNS.get(runtime.backend.name, 1 << 16)
        return cls(runtime, group, windows, max(wanted // prod(windows.output), 1), x.shape[1], weight.shape[0])

    @property
    def are_elements(self) -> bool:
        """Whether the elements of one image, as they lie, are its columns."""
        return self.windows.is_pointwise and self.images == 1

    def blocks(self, count: int) -> Iterator[slice]:
        """Yield the images that are taken together."""
        return (slice(start, min(start + self.images, count)) for start in range(0, count, self.images))

    def scratch_columns(self, images: int, dtype: Any, slot: int) -> tuple[Array, Array]:
        """Return scratch as windows (channels, kernel, kernel, images, output, output) and as matrices of groups."""
        kernel, output = self.windows.window.kernel, self.windows.output
        array = self.runtime.scratch((self.inputs, *kernel, images, *output), dtype, slot)
        rows, columns = self.inputs * prod(kernel) // self.group, images * prod(output)
        return array, array.reshape(self.group, rows, columns)

    def scratch_outputs(self, images: int, dtype: Any, slot: int) -> tuple[Array, Array]:
        """Return scratch as (images, channels, output, output), a view in another order, and as matrices of groups."""
        array = self.runtime.scratch((self.outputs, images, *self.windows.output), dtype, slot)
        columns = images * prod(self.windows.output)
        return array.swapaxes(0, 1), array.reshape(self.group, self.outputs // self.group, columns)

    def padded(self, images: int, dtype: Any, slot: int) -> Array:
        """Return scratch for images with their padding."""
        return self.runtime.scratch((images, self.inputs, *self.windows.padded), dtype, slot)

    def weights(self, weight: Array) -> Array:
        """Return weights in C order as matrices of groups, one row an output channel."""
        return weight.reshape(self.group, self.outputs // self.group, prod(weight.shape[1:]))

    def taking(self, y: Array, rows: slice, slot: int) -> tuple[Kernel | None, Array]:
        """Return the output's gradient for some images as matrices of groups, and what copies it there if need be."""
        images = rows.stop - rows.start
        if images == 1:
            return None, y[rows].reshape(self.group, self.outputs // self.group, prod(self.windows.output))
        shown, matrices = self.scratch_outputs(images, y.dtype, slot)
        return partial(self.runtime.array_module.copyto, shown, y[rows]), matrices

    def filling(self, x: Array, rows: slice, slot: int) -> tuple[Kernel, Array]:
        """Return what copies the windows of some images to columns, and the matrices that then hold them."""
        xp, images = self.runtime.array_module, rows.stop - rows.start
        array, matrices = self.scratch_columns(images, x.dtype, slot)
        part = x[rows]
        padded = self.padded(images, x.dtype, slot + 1) if self.windows.has_padding else part
        shown = self.windows.windows(xp, padded).transpose(1, 2, 3, 0, 4, 5)

        def fill() -> None:
            if self.windows.has_padding:
                padded.fill(0)
                xp.copyto(self.windows.interior(padded), part)
            xp.copyto(array, shown)

        return fill, matrices


def run_all(steps: Sequence[Kernel]) -> None:
    """Call the parts of a kernel in their order."""
    for step in steps:
        step()
