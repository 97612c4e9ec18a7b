"""Convolutions by compiled loops: what they are given, in blocks of images."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import partial
from importlib.util import find_spec
from math import prod
from typing import Any

import numpy as np

from mpiparallel.backend import jit
from mpiparallel.backend.products import pair_products
from mpiparallel.backend.protocol import Array
from mpiparallel.dataclass import dataclass
from mpiparallel.dtype import bfloat16
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.operator import Kernel
from mpiparallel.ops.images.convolution.columns import run_all
from mpiparallel.ops.images.convolution.gathered_images import (
    Offsets,
    PhasedImages,
    Phases,
    depth_blocks,
    grid,
    output_phases,
    repeated,
)
from mpiparallel.ops.images.window import Pair, WindowsOfImage

DEPTH = 384
"""Rows of a gathered matrix that are packed at once, at most."""
_PACKED = 256 * DEPTH
"""Elements of it that are packed at once: 384 KiB of float32, which stay in the second cache."""
_WINDOWS = 1024
"""Windows that a block of images has at least: with fewer, too much of the last tile of a block is empty."""
_LONG = 4
"""Tiles that have room in a channel of an image, from which on few enough hold parts of two images."""
_WHOLE = 256
"""Windows of an image from which on its outputs' gradient is long enough to be read where it lies."""


@dataclass(frozen=True)
class CompiledLoops:
    """The module of the compiled loops, and the size of their tiles of registers for one dtype."""

    module: Any
    lanes: int
    tile_columns: int
    tile_size: int

    @classmethod
    def find(cls, dtype: Any) -> CompiledLoops | None:
        """Return the loops; None where numba is not there, not wanted, or has no such numbers."""
        if np.dtype(dtype) == bfloat16 and pair_products.is_wanted() and pair_products.is_at_hand():
            from mpiparallel.ops.images.convolution import pair_loops

            return cls(pair_loops, pair_loops.RUN, 2 * pair_loops.COLUMNS, pair_loops.RUN**2)
        if not jit.wanted() or np.dtype(dtype) not in (np.float32, np.float64) or find_spec("numba") is None:
            return None
        # An optional extra, and slow to import: only when a convolution is bound.
        from mpiparallel.backend.register_tiles import TileShape
        from mpiparallel.ops.images.convolution import loops

        tile = TileShape.here(np.dtype(dtype).itemsize)
        return cls(loops, tile.lanes, tile.columns, tile.rows * tile.columns)


@dataclass(frozen=True)
class Gathered:
    """A matrix gathered from images: where its rows are, and which of them are packed at once."""

    images: PhasedImages
    rows: Offsets
    blocks: list[Pair]


@dataclass(frozen=True)
class CompiledConvolution:
    """A convolution in ``group`` groups, and its gradients, on arrays in C order of one dtype."""

    runtime: Runtime
    loops: CompiledLoops
    windows: WindowsOfImage
    group: int
    _offsets: dict[bytes, Offsets] = field(default_factory=dict, compare=False, repr=False)

    def forward(self, x: Array, weight: Array, y: Array) -> Kernel:
        """Return what sets ``y``, by columns that are windows."""
        images = PhasedImages(Phases.of_windows(self.windows, 0), Phases.of_windows(self.windows, 1))
        channels, depth = x.shape[1] // self.group, prod(weight.shape[1:])
        gathered = Gathered(images, self._rows(channels, images), depth_blocks([(0, depth)], DEPTH))
        steps: list[Kernel] = []
        for block in _blocks(len(x), prod(self.windows.output)):
            source, fill = self._padded(images, x[block])
            steps += [*fill, *self._multiply(weight.reshape(-1), gathered, source, channels, y[block])]
        return partial(run_all, steps)

    def input_gradient(self, dy: Array, weight: Array, dx: Array) -> Kernel:
        """Return what sets ``dx``: for each phase of its elements, columns of outputs that they went into."""
        outputs = PhasedImages(Phases.of_outputs(self.windows, 0), Phases.of_outputs(self.windows, 1))
        channels, depth = len(weight) // self.group, prod(weight.shape[1:])
        turned = self.runtime.scratch((weight.size,), weight.dtype, 0)
        turn = partial(
            self.loops.module.transpose,
            *(self.group, weight.reshape(-1), channels, depth, turned, self._line_starts(depth)),
        )
        rows = (outputs.places()[:, None] + np.arange(channels, dtype=np.int64) * outputs.plane).reshape(-1)
        phases, (down, across) = list(output_phases(self.windows)), self.windows.window.stride
        steps: list[Kernel] = [turn]
        if sum(prod(phase.counts) for phase in phases) < prod(self.windows.image):
            steps.append(partial(dx.fill, 0))
        for block in _blocks(len(dx), max((prod(phase.counts) for phase in phases), default=1)):
            source, fill = self._padded(outputs, dy[block])
            steps += fill
            for phase in phases:
                taps = [(tap * channels, (tap + 1) * channels) for tap in phase.taps]
                gathered = Gathered(outputs, rows, depth_blocks(taps, DEPTH))
                target = dx[block, :, phase.start[0] :: down, phase.start[1] :: across]
                steps += self._multiply(turned, gathered, source, channels, target)
        return partial(run_all, steps)

    def _multiply(self, lines: Array, gathered: Gathered, source: Array, channels: int, target: Array) -> list[Kernel]:
        """Return the kernels that set ``target``, a strided view of images, to lines times gathered columns."""
        images, outputs, *counts = target.shape
        begins, ends = _ranges(gathered.blocks)
        apart = channels * gathered.images.plane
        columns = gathered.images.windows(images, self.group * apart, (counts[0], counts[1]))
        run, wide = gathered.images.run((counts[0], counts[1]), self.loops.lanes), self.loops.tile_columns
        together = _PACKED // int((ends - begins).max()) // wide * wide
        given: list[Kernel] = []
        if target.flags.c_contiguous and prod(counts) >= _LONG * wide:
            out, pitch, places = (
                target.reshape(-1),
                prod(counts),
                grid(images, target[0].size, (1, prod(counts)), (0, 1)),
            )
        else:
            # Tiles that are not in one line are stored slowly, once for each block of the depth: copied, it is once.
            product = self.runtime.scratch((outputs, images, *counts), target.dtype, 4)
            given.append(partial(np.copyto, target, product.swapaxes(0, 1)))
            out, pitch, places = product.reshape(-1), len(columns), np.arange(len(columns), dtype=np.int64)
        multiply = partial(
            self.loops.module.multiply,
            *(self.group, lines, len(gathered.rows), outputs // self.group, begins, ends),
            *(source, apart, self._once(gathered.rows), self._once(repeated(columns, wide))),
            *(len(columns), together, run, out, pitch, self._once(places)),
            *self._memory(target.dtype, outputs // self.group, gathered.blocks, together),
        )
        return [multiply, *given]

    def weight_gradient(self, dy: Array, x: Array, dw: Array) -> Kernel:
        """Return what sets ``dw``: the outputs' gradient times the windows as rows."""
        images = PhasedImages(Phases.of_windows(self.windows, 0), Phases.of_windows(self.windows, 1))
        counts, width = self.windows.output, prod(dw.shape[1:])
        rows = self._rows(x.shape[1] // self.group, images)
        run, steps = images.run(counts, self.loops.lanes), list[Kernel]()
        for block in _blocks(len(x), prod(counts), 1 if prod(counts) >= _WHOLE else _WINDOWS):
            source, fill = self._padded(images, x[block])
            number = block.stop - block.start
            columns = images.windows(number, x.shape[1] * images.plane, counts)
            lines, take = self._lines(dy[block])
            begins, ends = _ranges(depth_blocks([(0, len(columns))], DEPTH, self.loops.lanes))
            correlate = partial(
                self.loops.module.correlate,
                *(self.group, lines, len(columns), len(dw) // self.group),
                *(source, x.shape[1] // self.group * images.plane),
                *(self._once(repeated(rows, self.loops.tile_columns)), width),
                *(self._once(repeated(columns, self.loops.lanes)), begins, ends, run),
                *(dw.reshape(-1), self._once(np.arange(width)), block.start > 0),
                *self._sums(dw, block.stop == len(x)),
            )
            steps += [*fill, *take, correlate]
        return partial(run_all, steps)

    def _sums(self, dw: Array, last: bool) -> tuple[object, ...]:
        """Return what the sums of a weight gradient need besides; ``last`` where no images follow."""
        return self._line_starts(self.loops.lanes), *self._memory(dw.dtype, len(dw) // self.group, [], 0)

    def _once(self, offsets: Offsets) -> Offsets:
        """Return equal offsets, one array for all blocks of images: they would take as much as a channel of each."""
        return self._offsets.setdefault(offsets.tobytes(), offsets)

    def _line_starts(self, apart: int) -> Offsets:
        """Return where the lines of a square of vectors start."""
        return np.arange(self.loops.lanes, dtype=np.int64) * apart

    def _rows(self, channels: int, images: PhasedImages) -> Offsets:
        """Return where each place of a window, channel after channel, is."""
        return (np.arange(channels, dtype=np.int64)[:, None] * images.plane + images.places()).reshape(-1)

    def _memory(self, dtype: Any, height: int, blocks: list[Pair], together: int) -> tuple[Array, ...]:
        """Return memory for packed columns, and for a tile or a square of vectors."""
        tile = max(self.loops.tile_size, self.loops.lanes**2)
        return self.runtime.scratch((_PACKED,), dtype, 2), self.runtime.scratch((tile,), dtype, 3)

    def _padded(self, images: PhasedImages, x: Array) -> tuple[Array, list[Kernel]]:
        """Return the elements of some images in their phases, and what copies them there if need be."""
        if images.are_images:
            return x.reshape(-1), []
        planes, down, across = len(x) * x.shape[1], images.down, images.across
        padded = self.runtime.scratch((planes * images.plane,), x.dtype, 1)
        if down.stride == 1 and across.surrounds(self.loops.lanes):
            sizes = down.before, across.before, down.length, across.length
            given = (planes, down.extent, across.extent, padded, *sizes, np.zeros(1, np.int64))
            return padded, [partial(self.loops.module.pad_rows, x.reshape(-1), *given)]
        size = down.extent * across.extent
        elements = self._once(images.elements())
        return padded, [partial(self.loops.module.pad, x.reshape(-1), planes, size, padded, elements)]

    def _lines(self, y: Array) -> tuple[Array, list[Kernel]]:
        """Return some images with the elements of each channel in one line, and what copies them there if need be."""
        images, channels, *field = y.shape
        if images == 1:
            return y.reshape(-1), []
        lines = self.runtime.scratch((channels, images, prod(field)), y.dtype, 4)
        copy = partial(np.copyto, lines.swapaxes(0, 1), y.reshape(images, channels, -1))
        return lines.reshape(-1), [copy]


def _blocks(count: int, windows: int, wanted: int = _WINDOWS) -> Iterator[slice]:
    """Yield equal numbers of images that have as many windows as wanted, or all.

    >>> [*_blocks(6, 10, 20)]
    [slice(0, 2, None), slice(2, 4, None), slice(4, 6, None)]
    >>> [*_blocks(2, 30, 20)]
    [slice(0, 1, None), slice(1, 2, None)]
    """
    number = max(1, count * windows // wanted) if windows < wanted else count
    step = -(-count // min(number, count))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def _ranges(blocks: list[Pair]) -> tuple[Offsets, Offsets]:
    begins, ends = zip(*blocks, strict=True)
    return np.array(begins, np.int64), np.array(ends, np.int64)
