"""Convolutions whose images have room for one window: each is a product of two matrices, as in a dense layer."""

from __future__ import annotations

from functools import partial
from math import prod

from mpiparallel.backend.protocol import Array
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.operator import Kernel
from mpiparallel.ops.images.convolution.columns import run_all
from mpiparallel.ops.images.window import WindowsOfImage

_LEFT_OUT = 3
"""The rest of the window is left out where less than one part in this number of it lies in the image."""


@dataclass(frozen=True)
class SingleWindow:
    """A convolution in one group, and its gradients: what of the window lies in padding is left out."""

    runtime: Runtime
    windows: WindowsOfImage

    def forward(self, x: Array, weight: Array, y: Array) -> Kernel:
        """Return what sets ``y``."""
        xp = self.runtime.array_module
        take_images, images = self._images(x)
        take_weights, weights = self._taken(weight, *self._places, 1)
        # With the weights first, as they lie, BLAS turns the few images rather than them.
        product = self.runtime.scratch((len(weight), len(x)), y.dtype, 2)
        multiply = partial(xp.matmul, weights, images.T, out=product)
        return partial(
            run_all, [*take_images, *take_weights, multiply, partial(xp.copyto, y.reshape(len(y), -1), product.T)]
        )

    def input_gradient(self, dy: Array, weight: Array, dx: Array) -> Kernel:
        """Return what sets ``dx``."""
        xp = self.runtime.array_module
        take, weights = self._taken(weight, *self._places, 1)
        images, give = self._given(dx, *self._inside)
        if self._in_image != self._places:
            window, part = self._window(dx)
            down, across = self._inside
            images = window.reshape(len(dx), -1)
            give = [partial(dx.fill, 0), partial(xp.copyto, dx[:, :, down, across], part)]
        product = partial(xp.matmul, dy.reshape(len(dy), -1), weights, out=images)
        return partial(run_all, [*take, product, *give])

    def weight_gradient(self, dy: Array, x: Array, dw: Array) -> Kernel:
        """Return what sets ``dw``."""
        take, images = self._images(x)
        weights, give = self._given(dw, *self._places)
        product = partial(self.runtime.array_module.matmul, dy.reshape(len(dy), -1).T, images, out=weights)
        return partial(run_all, [*take, product, *give])

    def _images(self, x: Array) -> tuple[list[Kernel], Array]:
        """Return what the places hold as a matrix, a line for each image, and what copies it there if need be."""
        down, across = self._inside
        if self._in_image == self._places:
            return self._taken(x, down, across, 0)
        window, part = self._window(x)
        copy = partial(self.runtime.array_module.copyto, part, x[:, :, down, across])
        return [partial(window.fill, 0), copy], window.reshape(len(x), -1)

    def _window(self, images: Array) -> tuple[Array, Array]:
        """Return scratch for the window of each image, and the part of it that lies in the image."""
        window = self.runtime.scratch((*images.shape[:2], *self.windows.window.kernel), images.dtype, 0)
        down, across = self._in_image
        return window, window[:, :, down, across]

    @property
    def _is_whole(self) -> bool:
        """Whether the whole window is multiplied, with zeros: where much of it lies in the image that is quicker."""
        places: int = prod(part.stop - part.start for part in self._in_image)
        return _LEFT_OUT * places >= prod(self.windows.window.kernel)

    @property
    def _places(self) -> tuple[slice, slice]:
        """The places in the window that are multiplied, down and across."""
        if self._is_whole:
            height, width = self.windows.window.kernel
            return slice(0, height), slice(0, width)
        return self._in_image

    @property
    def _in_image(self) -> tuple[slice, slice]:
        """The places in the window that lie in the image, down and across."""
        down, across = (slice(*self._range(dim)) for dim in (0, 1))
        return down, across

    @property
    def _inside(self) -> tuple[slice, slice]:
        """The elements of the image that lie in the window."""
        ranges = []
        for dim, places in enumerate(self._in_image):
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
