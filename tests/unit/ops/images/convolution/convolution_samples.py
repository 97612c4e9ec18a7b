"""Convolutions to try: random arrays, and what the definition gives for them."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from hypothesis import strategies as st

from mpiparallel.ops.images.window import Window

Array = Any

KINDS = ("forward", "input_gradient", "weight_gradient")


class Sample:
    """Random images, weights and gradient of the output of a convolution, in float64."""

    def __init__(self, images: int, channels: int, extents: Any, outputs: int, window: Window, group: int = 1) -> None:
        random = np.random.default_rng([images, channels, *extents, outputs])
        self.windows, self.group = window.over(extents), group
        self.x = random.standard_normal((images, channels * group, *extents))
        self.weight = random.standard_normal((outputs * group, channels, *window.kernel))
        self.dy = random.standard_normal((images, outputs * group, *self.windows.output))

    def arrays(self, kind: str, dtype: Any) -> tuple[list[Array], Array]:
        """Return the inputs of a kernel, and its output full of something else."""
        inputs, output = {
            "forward": ((self.x, self.weight), self.dy),
            "input_gradient": ((self.dy, self.weight), self.x),
            "weight_gradient": ((self.dy, self.x), self.weight),
        }[kind]
        return [array.astype(dtype) for array in inputs], np.full(output.shape, 7, dtype)

    def changed(self, change: Any) -> Sample:
        """Return the sample with other numbers."""
        other = copy(self)
        other.x, other.weight, other.dy = change(self.x), change(self.weight), change(self.dy)
        return other

    def expected(self, kind: str) -> Array:
        """Return what the definition gives: a sum over the places in the window."""
        (height, width), ((top, left), (bottom, right)) = self.windows.image, (self.windows.before, self.windows.after)
        padding = ((0, 0), (0, 0), (top, bottom), (left, right))
        x, dx = np.pad(self.x, padding), np.pad(np.zeros_like(self.x), padding)
        parts = {"x": self._groups(x), "dx": self._groups(dx), "dy": self._groups(self.dy)}
        weight = self.weight.reshape(self.group, -1, *self.weight.shape[1:])
        y, dw = np.zeros_like(parts["dy"]), np.zeros_like(weight)
        for row, column in np.ndindex(*self.windows.window.kernel):
            down, across = (
                slice(place * dilation, place * dilation + (count - 1) * stride + 1, stride)
                for place, dilation, stride, count in zip(
                    (row, column),
                    self.windows.window.dilation,
                    self.windows.window.stride,
                    self.windows.output,
                    strict=True,
                )
            )
            seen, place = parts["x"][..., down, across], (..., row, column)
            y += np.einsum("ngihw,goi->ngohw", seen, weight[place])
            dw[place] = np.einsum("ngohw,ngihw->goi", parts["dy"], seen)
            parts["dx"][..., down, across] += np.einsum("ngohw,goi->ngihw", parts["dy"], weight[place])
        inside = dx[..., top : top + height, left : left + width]
        found = {"forward": y, "input_gradient": inside, "weight_gradient": dw}[kind]
        return found.reshape(self.arrays(kind, np.float64)[1].shape)

    def _groups(self, images: Array) -> Array:
        return images.reshape(len(images), self.group, -1, *images.shape[2:])


@st.composite
def any_sample(draw: st.DrawFn) -> Sample:
    """Draw a convolution: all kinds of windows, padding that differs from side to side, few and many channels."""
    small = st.integers(1, 3)
    kernel, stride, dilation = ((draw(small), draw(small)) for _ in range(3))
    reach = [(kernel[dim] - 1) * dilation[dim] + 1 for dim in (0, 1)]
    pad = tuple(draw(st.integers(0, reach[side // 2])) for side in range(4))
    extents = [draw(st.integers(max(1, reach[dim] - pad[2 * dim] - pad[2 * dim + 1]), 9)) for dim in (0, 1)]
    window = Window(kernel, stride, dilation, "pad", pad)
    channels, outputs = draw(st.sampled_from([1, 2, 3, 9])), draw(st.sampled_from([1, 3, 8, 17]))
    return Sample(draw(small), channels, extents, outputs, window, draw(st.sampled_from([1, 1, 2])))


LARGE = {
    "long depth": (2, 50, (5, 4), 9, Window((3, 3), (1, 1), pad_mode="same")),
    "rows of a vector": (1, 3, (20, 32), 8, Window((1, 1), (1, 1))),
    "blocks of images": (40, 2, (6, 6), 3, Window((3, 3), (1, 1), pad_mode="same")),
    "many windows": (1, 1, (70, 70), 2, Window((2, 2), (1, 1))),
    "every other element": (2, 3, (17, 32), 5, Window((1, 1), (2, 2), pad_mode="same")),
    "one element": (3, 5, (1, 1), 6, Window((3, 3), (1, 1), pad_mode="same")),
    "one window": (3, 5, (2, 3), 6, Window((3, 3), (3, 3), pad_mode="same")),
}
