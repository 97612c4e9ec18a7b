"""Windows over parts of images: which elements belong to which windows, where height and width are cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import Part
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.operator import Kernel
from mpiparallel.layout.box import Box
from mpiparallel.ops.images.window import Pair, WindowsOfImage

IMAGE_DIMS = (2, 3)
"""Height and width in images (n, c, h, w)."""

_SLOT = 31
"""Scratch memory that no kernel bound inside ``cropped`` uses."""


def touched(windows: WindowsOfImage, dim: int, start: int, stop: int) -> Pair:
    """Return the least range of an image's elements along a dim that holds all that windows [start, stop) touch.

    Padding does not count. The range is (0, 0) where nothing is touched.

    >>> from mpiparallel.ops.images.window import Window
    >>> touched(Window((3, 1), (2, 1), pad_mode="same").over((7, 1)), 0, 1, 3)
    (1, 6)
    """
    stride, ranges = windows.window.stride[dim], []
    for offset in _offsets(windows, dim):
        first = max(start, -(offset // stride))
        last = min(stop - 1, (windows.image[dim] - 1 - offset) // stride)
        if first <= last:
            ranges.append((first * stride + offset, last * stride + offset + 1))
    return _hull(ranges)


def touching(windows: WindowsOfImage, dim: int, start: int, stop: int) -> Pair:
    """Return the least range of windows along a dim that holds all that touch an image's elements [start, stop).

    >>> from mpiparallel.ops.images.window import Window
    >>> touching(Window((3, 1), (2, 1), pad_mode="same").over((7, 1)), 0, 3, 5)
    (1, 3)
    """
    stride, ranges = windows.window.stride[dim], []
    for offset in _offsets(windows, dim):
        first = max(0, -((offset - start) // stride))
        last = min(windows.output[dim] - 1, (stop - 1 - offset) // stride)
        if first <= last:
            ranges.append((first, last + 1))
    return _hull(ranges)


def _offsets(windows: WindowsOfImage, dim: int) -> list[int]:
    """Return the elements along a dim that the first window touches, counted from the image's first."""
    step = windows.window.dilation[dim]
    return [place * step - windows.before[dim] for place in range(windows.window.kernel[dim])]


def _hull(ranges: Sequence[Pair]) -> Pair:
    return min((start for start, _ in ranges), default=0), max((stop for _, stop in ranges), default=0)


def image_of(windows: WindowsOfImage, output: Box, image: Box) -> Box:
    """Return ``image`` with the height and width that the windows in ``output`` touch."""
    return _with_ranges(image, [touched(windows, dim, *_range(output, dim)) for dim in (0, 1)])


def output_of(windows: WindowsOfImage, image: Box, output: Box) -> Box:
    """Return ``output`` with the height and width of the windows that touch ``image``."""
    return _with_ranges(output, [touching(windows, dim, *_range(image, dim)) for dim in (0, 1)])


def _range(box: Box, dim: int) -> Pair:
    return box.start[IMAGE_DIMS[dim]], box.stop[IMAGE_DIMS[dim]]


def _with_ranges(box: Box, ranges: Sequence[Pair]) -> Box:
    (top, bottom), (left, right) = ranges
    start, stop = (*box.start[:2], top, left), (*box.stop[:2], bottom, right)
    return Box(start, stop)


def is_cut(part: Part) -> bool:
    """Return whether a part has less than the whole height and width."""
    return any(part.shape[dim] != part.global_shape[dim] for dim in IMAGE_DIMS)


def covered(windows: WindowsOfImage, output: Box, image: Box) -> Box:
    """Return ``image`` without the first rows and columns, that the windows in ``output`` do not reach."""
    if output.empty:
        return image
    ranges = []
    for dim in (0, 1):
        start, stop = _range(image, dim)
        ranges.append((max(start, _reach(windows, dim, output)[0]), stop))
    return _with_ranges(image, ranges)


def windows_of_part(windows: WindowsOfImage, image: Box, output: Box) -> WindowsOfImage:
    """Return the windows in ``output`` as windows of images that are ``image``: what it lacks of them is padding.

    ``image`` starts in the first window or behind its start.
    """
    (top, bottom), (left, right) = (_padding(windows, dim, image, output) for dim in (0, 1))
    height, width = IMAGE_DIMS
    return replace(
        windows,
        image=(image.shape[height], image.shape[width]),
        before=(top, left),
        after=(bottom, right),
        output=(output.shape[height], output.shape[width]),
    )


def _padding(windows: WindowsOfImage, dim: int, image: Box, output: Box) -> Pair:
    """Return by how much the windows in ``output`` reach over both ends of ``image`` along a dim."""
    (start, stop), (first, last) = _range(image, dim), _reach(windows, dim, output)
    return max(start - first, 0), max(last - stop, 0)


def _reach(windows: WindowsOfImage, dim: int, output: Box) -> Pair:
    """Return the elements from the start of the first to the end of the last window in ``output``, with padding."""
    start, stop = _range(output, dim)
    offsets, stride = _offsets(windows, dim), windows.window.stride[dim]
    return start * stride + offsets[0], (stop - 1) * stride + offsets[-1] + 1


def cropped(runtime: Runtime, image: Box, wanted: Box, target: Array, bind: Callable[[Array], Kernel]) -> Kernel:
    """Return what fills ``target``, the elements ``wanted``, from the kernel that ``bind`` makes of those in ``image``.

    Elements that are not in ``image`` become 0.
    """
    if image == wanted:
        return bind(target)
    xp, common = runtime.array_module, image.intersection(wanted)
    source = runtime.scratch(image.shape, target.dtype, _SLOT)
    compute, is_whole = bind(source), image.contains(wanted)

    def run() -> None:
        if not is_whole:
            target.fill(0)
        if common is not None:
            compute()
            xp.copyto(target[common.within(wanted)], source[common.within(image)])

    return run
