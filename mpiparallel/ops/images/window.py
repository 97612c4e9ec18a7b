"""The windows that a convolution or a pooling slides over the last two dims of images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mpiparallel.backend.protocol import Array
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ConfigurationError, ShapeError

Pair = tuple[int, int]

PAD_MODES = ("valid", "same", "pad")


def pair(operator: str, name: str, given: int | Sequence[int]) -> Pair:
    """Return height and width of an option that is an integer, a pair, or MindSpore's four numbers (1, 1, h, w).

    Raises ConfigurationError for anything else: windows do not step over images and channels.

    >>> pair("Conv2D", "stride", 2), pair("Conv2D", "stride", (1, 1, 2, 3))
    ((2, 2), (2, 3))
    """
    numbers = tuple(given) if isinstance(given, (tuple, list)) else (given, given)
    height_width = numbers[2:] if len(numbers) == 4 and numbers[:2] == (1, 1) else numbers
    if len(height_width) != 2 or any(type(number) is not int or number < 1 for number in numbers):
        raise ConfigurationError(
            f"{operator}: {name}={given!r} must be a positive integer, a pair of them (height, width), or "
            "(1, 1, height, width)"
        )
    return height_width[0], height_width[1]


def image_format(operator: str, data_format: str) -> str:
    """Return ``data_format``; raise ConfigurationError unless it is NCHW."""
    if data_format != "NCHW":
        raise ConfigurationError(f"{operator}: data_format {data_format!r} is not supported; transpose to 'NCHW'")
    return data_format


@dataclass(frozen=True)
class Window:
    """Windows of ``kernel`` elements, ``dilation`` apart, that start every ``stride`` elements; (height, width) each.

    ``pad_mode`` is ``valid`` (no padding), ``same`` or ``pad`` (by ``pad``: top, bottom, left, right). With ``same``
    there is as much as makes the output ``ceil(input / stride)``, the odd one at the bottom and right.
    """

    kernel: Pair
    stride: Pair
    dilation: Pair = (1, 1)
    pad_mode: str = "valid"
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)

    def __post_init__(self) -> None:
        if self.pad_mode not in PAD_MODES:
            raise ConfigurationError(f"pad_mode {self.pad_mode!r} is not one of {', '.join(PAD_MODES)}")
        if any(count < 0 for count in self.pad) or (any(self.pad) and self.pad_mode != "pad"):
            raise ConfigurationError(
                f"pad={self.pad} with pad_mode {self.pad_mode!r}: padding must be positive, and needs pad_mode='pad'"
            )

    def over(self, extents: Sequence[int]) -> WindowsOfImage:
        """Return the windows of images of these extents; raise ShapeError where not one fits."""
        dims = [self._dim(dim, extents[dim]) for dim in (0, 1)]
        (top, bottom, height), (left, right, width) = dims
        if height < 1 or width < 1:
            raise ShapeError(
                f"images of {tuple(extents)} elements with padding {(top, bottom, left, right)} are smaller than a "
                f"window of {self.kernel} elements with dilation {self.dilation}; make them larger or pad them"
            )
        image = (extents[0], extents[1])
        return WindowsOfImage(self, image, (top, left), (bottom, right), (height, width))

    def _dim(self, dim: int, extent: int) -> tuple[int, int, int]:
        """Return the padding before and after one dim, and the number of windows along it."""
        reach = (self.kernel[dim] - 1) * self.dilation[dim] + 1
        stride = self.stride[dim]
        if self.pad_mode == "same":
            count = -(-extent // stride)
            total = max((count - 1) * stride + reach - extent, 0)
            return total // 2, total - total // 2, count
        before, after = self.pad[2 * dim : 2 * dim + 2]
        return before, after, (extent + before + after - reach) // stride + 1


@dataclass(frozen=True)
class WindowsOfImage:
    """The windows of images of ``image`` elements: ``output`` of them down and across."""

    window: Window
    image: Pair
    before: Pair
    after: Pair
    output: Pair

    @property
    def padded(self) -> Pair:
        """Height and width of an image with its padding."""
        height, width = (sum(parts) for parts in zip(self.image, self.before, self.after, strict=True))
        return height, width

    @property
    def has_padding(self) -> bool:
        """Whether any element is padding."""
        return self.padded != self.image

    @property
    def is_pointwise(self) -> bool:
        """Whether the windows are the elements."""
        return self.window.kernel == (1, 1) and self.output == self.image and not self.has_padding

    def interior(self, padded: Array) -> Array:
        """Return the view of padded images (..., height, width) that leaves out the padding."""
        (top, left), (height, width) = self.before, self.image
        return padded[..., top : top + height, left : left + width]

    def taps(self, padded: Array) -> Iterator[Array]:
        """Yield, for each place in the window, row after row, the view of what lies there in all windows."""
        for row in range(self.window.kernel[0]):
            for column in range(self.window.kernel[1]):
                down, across = self._steps(0, row), self._steps(1, column)
                yield padded[..., down, across]

    def _steps(self, dim: int, place: int) -> slice:
        start, stride = place * self.window.dilation[dim], self.window.stride[dim]
        return slice(start, start + (self.output[dim] - 1) * stride + 1, stride)

    def windows(self, xp: Any, padded: Array) -> Array:
        """Return all windows of padded images (..., height, width): a view (..., kernel, kernel, output, output)."""
        *outer, down, across = padded.strides
        (dilate_down, dilate_across), (stride_down, stride_across) = self.window.dilation, self.window.stride
        strides = (down * dilate_down, across * dilate_across, down * stride_down, across * stride_across)
        shape = (*padded.shape[:-2], *self.window.kernel, *self.output)
        view: Array = xp.lib.stride_tricks.as_strided(padded, shape, (*outer, *strides))
        return view
