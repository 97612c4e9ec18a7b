"""What windows read over a cut, against an account of which elements influence which."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mpiparallel.backend.tensor_spec import Part
from mpiparallel.errors import ShapeError
from mpiparallel.layout.box import Box, part_bounds
from mpiparallel.ops import operations as P
from mpiparallel.ops.images.window import Window, WindowsOfImage
from mpiparallel.ops.images.window_parts import touched, touching


@st.composite
def any_windows(draw: st.DrawFn, dim: int) -> WindowsOfImage:
    """Draw windows of a small image, in the other dim of one element; where none fits, those of one element."""

    def along(number: int) -> tuple[int, int]:
        return (number, 1) if dim == 0 else (1, number)

    small = st.integers(1, 4)
    kernel, stride, dilation = (along(draw(small)) for _ in range(3))
    pad_mode = draw(st.sampled_from(["valid", "same", "pad"]))
    ends = (draw(st.integers(0, 3)), draw(st.integers(0, 3))) if pad_mode == "pad" else (0, 0)
    window = Window(kernel, stride, dilation, pad_mode, (*ends, 0, 0) if dim == 0 else (0, 0, *ends))
    try:
        return window.over(along(draw(st.integers(1, 12))))
    except ShapeError:
        return Window((1, 1), (1, 1)).over((2, 3))


def influence(windows: WindowsOfImage, dim: int) -> np.ndarray:
    """Return which element (column) of an image lies in which window (row), by what taps of numbered elements show."""
    numbered = np.full(windows.padded, -1)
    index = np.arange(windows.image[dim])
    windows.interior(numbered)[...] = index[:, None] if dim == 0 else index
    found = np.zeros((windows.output[dim], windows.image[dim]), bool)
    for tap in windows.taps(numbered):
        for output in range(windows.output[dim]):
            seen = tap.take(output, dim)
            found[output, seen[seen >= 0]] = True
    return found


@settings(max_examples=400)
@given(dim=st.sampled_from([0, 1]), parts=st.integers(1, 6), data=st.data())
def test_a_part_reads_all_that_influences_it_and_ends_at_what_does(dim, parts, data):
    windows = data.draw(any_windows(dim))
    found = influence(windows, dim)
    part = data.draw(st.integers(0, parts - 1))

    outputs = part_bounds(windows.output[dim], parts, part)
    needed = np.flatnonzero(found[slice(*outputs)].any(0))
    expected = (needed[0], needed[-1] + 1) if len(needed) else (0, 0)
    assert touched(windows, dim, *outputs) == expected

    elements = part_bounds(windows.image[dim], parts, part)
    needed = np.flatnonzero(found[:, slice(*elements)].any(1))
    expected = (needed[0], needed[-1] + 1) if len(needed) else (0, 0)
    assert touching(windows, dim, *elements) == expected


def test_a_gradient_of_maxima_reads_whole_windows():
    operator = P.MaxPoolGrad(3, 2, "same")
    shape, pooled = (1, 1, 8, 4), (1, 1, 4, 2)
    dx = Part(shape, Box((0, 0, 4, 0), (1, 1, 8, 4)))
    y = Part(pooled, Box((0, 0, 2, 0), (1, 1, 4, 2)))
    read = operator.reads([dx, y, y], [dx])
    assert [(box.start[2], box.stop[2]) for box in read] == [(2, 8), (1, 4), (1, 4)]
