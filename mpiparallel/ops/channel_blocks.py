"""Passing over tensors (n, c, ...) in blocks that stay in a processor's cache, with numbers for each channel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.operator import Kernel
from mpiparallel.graph.runtime import Runtime
from mpiparallel.ops.blocks import block_size

Places = tuple[slice, slice]


class ChannelBlocks:
    """Blocks of whole images, or of the channels of one.

    A kernel is made of a function of one block: of the tensors' parts, of the parts of ``totals`` and of ``vectors``.
    A total and a vector have one number a channel; a vector's part broadcasts with the tensors'.
    """

    def __init__(
        self,
        runtime: Runtime,
        tensors: Sequence[Array],
        totals: Sequence[Array] = (),
        vectors: Sequence[Array] = (),
    ) -> None:
        self._runtime = runtime
        self._tensors = _with_one_field(tensors)
        self._totals = totals
        self._vectors = vectors

    def kernel(self, function: Callable[..., None]) -> Kernel:
        """Return what calls the function on every block."""
        blocks = [self._block(images, channels) for images, channels in self._places()]

        def run() -> None:
            for block in blocks:
                function(*block)

        return run

    def kernel_of_sums(self, function: Callable[..., None]) -> Kernel:
        """Return what sets the totals to zero, then calls the function on every block."""
        pass_over = self.kernel(function)

        def run() -> None:
            for total in self._totals:
                total.fill(0)
            pass_over()

        return run

    def kernel_of_lines(self, line: Callable[[Array, Array], None]) -> Kernel:
        """Return what computes the last tensor from the first, ``x * factor + shift``, by channel.

        ``line(factor, shift)`` sets the two vectors first.
        """
        xp, target = self._runtime.array_module, self._tensors[-1]
        channels, dtype = target.shape[1], target.dtype
        factor, shift = xp.empty(channels, dtype), xp.empty(channels, dtype)
        self._vectors = (factor, shift)

        def compute(x: Array, target: Array, factor: Array, shift: Array) -> None:
            xp.multiply(x, factor, out=target)
            xp.add(target, shift, out=target)

        pass_over = self.kernel(compute)

        def run() -> None:
            line(factor, shift)
            pass_over()

        return run

    def add_sums(self, part: Array, total: Array) -> None:
        """Add the sums of each channel of one block to its part of a total."""
        sums = self._runtime.scratch(tuple(total.shape), np.promote_types(part.dtype, np.float32), 1)
        xp = self._runtime.array_module
        xp.add.reduce(part, axis=(0, *range(2, part.ndim)), out=sums)
        xp.add(total, sums, out=total)

    def _places(self) -> list[Places]:
        count, channels, *field = self._tensors[0].shape
        size, row = block_size(self._runtime), prod(field)
        images = max(size // max(channels * row, 1), 1)
        together = max(channels if channels * row <= size else size // row, 1)
        return [
            (slice(first, first + images), slice(channel, channel + together))
            for first in range(0, count, images)
            for channel in range(0, channels, together)
            if row
        ]

    def _block(self, images: slice, channels: slice) -> tuple[Array, ...]:
        places: tuple[Any, ...] = (channels, *(None,) * (self._tensors[0].ndim - 2))
        return (
            *(tensor[images, channels] for tensor in self._tensors),
            *(total[channels] for total in self._totals),
            *(vector[places] for vector in self._vectors),
        )


def _with_one_field(tensors: Sequence[Array]) -> list[Array]:
    """Return the tensors with the dims after the channels as one, which is faster to reduce, where all are in order."""
    if not all(tensor.flags.c_contiguous for tensor in tensors):
        return list(tensors)
    return [tensor.reshape(*tensor.shape[:2], prod(tensor.shape[2:])) for tensor in tensors]
