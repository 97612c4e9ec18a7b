"""Convolutions whose images have room for one window: each is a product of two matrices, as in a dense layer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.operator import Kernel
from mpiparallel.graph.runtime import Runtime
from mpiparallel.ops.columns import run_all
from mpiparallel.ops.window import WindowsOfImage


@dataclass(frozen=True)
class SingleWindow:
    """A convolution in one group, and its gradients: what of the window lies in padding is left out."""

    runtime: Runtime
    windows: WindowsOfImage

    def forward(self, x: Array, weight: Array, y: Array) -> Kernel:
        """Return what sets ``y``."""
        take_images, images = self._taken(x, *self._inside, 0)
        take_weights, weights = self._taken(weight, *self._places, 1)
        product = partial(self.runtime.array_module.matmul, images, weights.T, out=y.reshape(len(y), -1))
        return partial(run_all, [*take_images, *take_weights, product])

    def input_gradient(self, dy: Array, weight: Array, dx: Array) -> Kernel:
        """Return what sets ``dx``."""
        take, weights = self._taken(weight, *self._places, 1)
        images, give = self._given(dx, *self._inside)
        product = partial(self.runtime.array_module.matmul, dy.reshape(len(dy), -1), weights, out=images)
        return partial(run_all, [*take, product, *give])

    def weight_gradient(self, dy: Array, x: Array, dw: Array) -> Kernel:
        """Return what sets ``dw``."""
        take, images = self._taken(x, *self._inside, 0)
        weights, give = self._given(dw, *self._places)
        product = partial(self.runtime.array_module.matmul, dy.reshape(len(dy), -1).T, images, out=weights)
        return partial(run_all, [*take, product, *give])

    @property
    def _places(self) -> tuple[slice, slice]:
        """The places in the window that lie in the image, down and across."""
        down, across = (slice(*self._range(dim)) for dim in (0, 1))
        return down, across

    @property
    def _inside(self) -> tuple[slice, slice]:
        """The elements of the image that lie at those places."""
        ranges = []
        for dim, places in enumerate(self._places):
            step, before = self.windows.window.dilation[dim], self.windows.before[dim]
            ranges.append(slice(places.start * step - before, places.stop * step - before, step))
        return ranges[0], ranges[1]

    def _range(self, dim: int) -> tuple[int, int]:
        step, before = self.windows.window.dilation[dim], self.windows.before[dim]
        start = -(-before // step)
        stop = min(self.windows.window.kernel[dim], -(-(self.windows.image[dim] + before) // step))
        return start, max(stop, start)

    def _taken(self, array: Array, down: slice, across: slice, slot: int) -> tuple[list[Kernel], Array]:
        """Return a part of images or weights as a matrix, and what copies it there if need be."""
        part = array[:, :, down, across]
        if part.shape == array.shape:
            return [], array.reshape(len(array), -1)
        scratch = self.runtime.scratch(part.shape, array.dtype, slot)
        return [partial(self.runtime.array_module.copyto, scratch, part)], scratch.reshape(len(array), -1)

    def _given(self, array: Array, down: slice, across: slice) -> tuple[Array, list[Kernel]]:
        """Return a matrix for a part of images or weights, and what sets the whole from it if need be."""
        part = array[:, :, down, across]
        if part.shape == array.shape:
            return array.reshape(len(array), -1), []
        scratch = self.runtime.scratch(part.shape, array.dtype, 2)
        steps: list[Kernel] = [partial(array.fill, 0), partial(self.runtime.array_module.copyto, part, scratch)]
        return scratch.reshape(len(array), -1), steps
