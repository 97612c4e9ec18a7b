"""Where the matrices of a convolution lie in images: the offsets by which compiled loops gather them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mpiparallel.dataclass import dataclass
from mpiparallel.ops.images.window import Pair, WindowsOfImage

Offsets = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Phases:
    """One dim of images with padding, taken apart so that every ``stride``-th element is beside the last.

    Element ``j`` of the phase ``p`` is the image's element ``j * stride + p - before``, 0 where there is none, for
    ``length`` of them. ``places`` are the places in a window: the number of their phase, and their first element.
    """

    extent: int
    before: int
    stride: int
    phases: tuple[int, ...]
    length: int
    places: tuple[Pair, ...]

    @classmethod
    def of_windows(cls, windows: WindowsOfImage, dim: int) -> Phases:
        """Return how windows read images."""
        stride, taps = windows.window.stride[dim], _taps(windows, dim)
        phases = sorted({tap % stride for tap in taps})
        places = tuple((phases.index(tap % stride), tap // stride) for tap in taps)
        length = windows.output[dim] + max(first for _, first in places)
        return cls(windows.image[dim], windows.before[dim], stride, tuple(phases), length, places).plain()

    @classmethod
    def of_outputs(cls, windows: WindowsOfImage, dim: int) -> Phases:
        """Return how the elements of images read the outputs of the windows that they are in."""
        shifts = [_shift(windows, dim, tap) for tap in _taps(windows, dim)]
        counts = [_count(windows, dim, _phase(windows, dim, tap)) for tap in _taps(windows, dim)]
        before = max(0, -min(shifts))
        length = before + max(shift + count for shift, count in zip(shifts, counts, strict=True))
        extent = windows.output[dim]
        return cls(extent, before, 1, (0,), length, tuple((0, shift + before) for shift in shifts)).plain()

    def plain(self) -> Phases:
        """Return the same, of the images as they lie where that is possible."""
        if self.stride == 1 and self.before == 0 and self.length <= self.extent:
            return Phases(self.extent, 0, 1, (0,), self.extent, self.places)
        return self

    @property
    def is_image(self) -> bool:
        """Whether these are the image's elements, as they lie."""
        return self.stride == 1 and self.before == 0 and self.length == self.extent

    def surrounds(self, least: int) -> bool:
        """Whether these are all elements of an image in their order, at least so many, with zeros around them."""
        return self.stride == 1 and least <= self.extent <= self.length - self.before and self.before >= 0

    def elements(self) -> Offsets:
        """Return the image's element at each place of each phase; -1 where there is none."""
        first = np.array(self.phases, np.int64)[:, None] - self.before
        found = first + np.arange(self.length, dtype=np.int64) * self.stride
        return np.where((found >= 0) & (found < self.extent), found, -1)


def _taps(windows: WindowsOfImage, dim: int) -> list[int]:
    return [place * windows.window.dilation[dim] for place in range(windows.window.kernel[dim])]


def _phase(windows: WindowsOfImage, dim: int, tap: int) -> int:
    """Return which of every ``stride`` elements of an image a place in the windows touches."""
    return (tap - windows.before[dim]) % windows.window.stride[dim]


def _shift(windows: WindowsOfImage, dim: int, tap: int) -> int:
    """Return the window whose place touches the first element of its phase."""
    return (_phase(windows, dim, tap) + windows.before[dim] - tap) // windows.window.stride[dim]


def _count(windows: WindowsOfImage, dim: int, phase: int) -> int:
    """Return how many elements of an image are of a phase."""
    return max(0, -(-(windows.image[dim] - phase) // windows.window.stride[dim]))


@dataclass(frozen=True)
class PhasedImages:
    """Both dims of images; each channel's phases lie one after another."""

    down: Phases
    across: Phases

    @property
    def are_images(self) -> bool:
        """Whether nothing need be copied."""
        return self.down.is_image and self.across.is_image

    @property
    def plane(self) -> int:
        """Elements of a channel."""
        return len(self.down.phases) * len(self.across.phases) * self.down.length * self.across.length

    def elements(self) -> Offsets:
        """Return the image's element at each place of a channel; negative where there is none."""
        rows, columns = self.down.elements()[:, None, :, None], self.across.elements()[None, :, None, :]
        found = np.where((rows < 0) | (columns < 0), -1, rows * self.across.extent + columns)
        return found.reshape(-1)

    def places(self) -> Offsets:
        """Return where each place in a window is in a channel, row after row."""
        found = [
            ((row_phase * len(self.across.phases) + column_phase) * self.down.length + row) * self.across.length
            + column
            for row_phase, row in self.down.places
            for column_phase, column in self.across.places
        ]
        return np.array(found, np.int64)

    def windows(self, images: int, apart: int, counts: Pair) -> Offsets:
        """Return where each of ``counts`` windows of images ``apart`` elements from each other starts."""
        return grid(images, apart, counts, (self.across.length, 1))

    def run(self, counts: Pair, longest: int) -> int:
        """Return how many windows are beside each other for sure: a power of two, at most ``longest``."""
        beside = counts[1] if counts[1] != self.across.length else counts[0] * counts[1]
        return min(beside & -beside, longest)


def grid(images: int, apart: int, counts: Pair, steps: Pair) -> Offsets:
    """Return the offsets of a grid in each image."""
    image, row, column = (np.arange(count, dtype=np.int64) for count in (images, *counts))
    offsets: Offsets = image[:, None, None] * apart + row[:, None] * steps[0] + column * steps[1]
    return offsets.reshape(-1)


def repeated(offsets: Offsets, step: int) -> Offsets:
    """Return the offsets, and some again so that their number is a multiple of ``step``."""
    return np.resize(offsets, -(-len(offsets) // step) * step)


@dataclass(frozen=True)
class OutputPhase:
    """The elements of an image that the same places of windows touch: which places, how many elements, from where."""

    taps: tuple[int, ...]
    counts: Pair
    start: Pair


def output_phases(windows: WindowsOfImage) -> Iterator[OutputPhase]:
    """Yield the phases of images that windows touch at all."""
    width = windows.window.kernel[1]
    of_dim = [[_phase(windows, dim, tap) for tap in _taps(windows, dim)] for dim in (0, 1)]
    for down in sorted(set(of_dim[0])):
        for across in sorted(set(of_dim[1])):
            counts = _count(windows, 0, down), _count(windows, 1, across)
            taps = tuple(
                row * width + column
                for row, row_phase in enumerate(of_dim[0])
                for column, column_phase in enumerate(of_dim[1])
                if (row_phase, column_phase) == (down, across)
            )
            if all(counts):
                yield OutputPhase(taps, counts, (down, across))


def depth_blocks(ranges: Sequence[Pair], most: int, multiple: int = 1) -> list[Pair]:
    """Return ranges that are beside each other as one, and all cut evenly into at most ``most``.

    >>> depth_blocks([(0, 4), (4, 10), (12, 14)], 6)
    [(0, 5), (5, 10), (12, 14)]
    """
    merged: list[Pair] = []
    for start, stop in ranges:
        if merged and merged[-1][1] == start:
            start = merged.pop()[0]
        merged.append((start, stop))
    blocks = []
    for start, stop in merged:
        parts = -(-(stop - start) // most)
        step = -(-(stop - start) // (parts * multiple)) * multiple
        blocks += [(begin, min(begin + step, stop)) for begin in range(start, stop, step)]
    return blocks
