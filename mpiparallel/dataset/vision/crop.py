"""Parts cut out of an image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mpiparallel.dataset.stage import Array, check_count
from mpiparallel.dataset.vision.image import as_image, as_size
from mpiparallel.errors import DatasetError


class RandomCrop:
    """Cuts a part out of an image (H, W, C) or (H, W) at a random place; the dtype stays.

    Parameters
    ----------
    size : int or (int, int)
        Height and width in pixels, or the edge of a square.
    padding : int or sequence of int, optional
        Pixels that the image gets first: on all sides, (left and right, top and bottom), or (left, top, right, bottom).
    pad_if_needed : bool
        Whether an image that is smaller than ``size`` is padded on both sides by what it lacks.
    fill_value : int or tuple of int
        Of those pixels: 0 to 255, or one for each channel.

    Raises
    ------
    DatasetError
        If a parameter has no meaning; when called, if the image is smaller than ``size``.

    Examples
    --------
    >>> import numpy as np
    >>> RandomCrop(2)(np.arange(9).reshape(3, 3), generator=np.random.default_rng(1))
    array([[1, 2],
           [4, 5]])
    """

    random = True

    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill_value: int | tuple[int, ...] = 0,
    ) -> None:
        self.size = as_size("RandomCrop", size)
        self.padding = _as_padding(padding)
        self.pad_if_needed = pad_if_needed
        self.fill_value = fill_value
        for value in fill_value if isinstance(fill_value, tuple) else (fill_value,):
            check_count("RandomCrop", "fill_value", value, 0)
            if value > 255:
                raise DatasetError(f"RandomCrop: fill_value is {fill_value!r}; give integers from 0 to 255")

    def __call__(self, image: npt.ArrayLike, *, generator: np.random.Generator) -> Array:
        """Return the part that ``generator`` draws."""
        array = self._padded(as_image("RandomCrop", image))
        spare = [length - edge for length, edge in zip(array.shape, self.size, strict=False)]
        if min(spare) < 0:
            raise DatasetError(
                f"RandomCrop: the image with its padding is {array.shape[:2]}, smaller than the size {self.size}; "
                "give a smaller size, more padding or pad_if_needed=True"
            )
        top, left = (int(generator.integers(room + 1)) for room in spare)
        return array[top : top + self.size[0], left : left + self.size[1]]

    def _padded(self, image: Array) -> Array:
        left, top, right, bottom = self.padding
        height, width = image.shape[0] + top + bottom, image.shape[1] + left + right
        if self.pad_if_needed:
            high, wide = max(self.size[0] - height, 0), max(self.size[1] - width, 0)
            left, top, right, bottom = left + wide, top + high, right + wide, bottom + high
        return pad(image, left, top, right, bottom, self.fill_value)


class CenterCrop:
    """Cuts the middle out of an image (H, W, C) or (H, W); the dtype stays.

    An image that is smaller is padded with 0 on both sides. Of an odd number of pixels the one more is padded at the
    top or left, and cut off at the bottom or right.

    Parameters
    ----------
    size : int or (int, int)
        Height and width in pixels, or the edge of a square.

    Raises
    ------
    DatasetError
        If ``size`` is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> CenterCrop((1, 2))(np.arange(12).reshape(3, 4))
    array([[5, 6]])
    """

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = as_size("CenterCrop", size)

    def __call__(self, image: npt.ArrayLike) -> Array:
        """Return the middle of ``image``."""
        array = as_image("CenterCrop", image)
        high, wide = (max(edge - length, 0) for edge, length in zip(self.size, array.shape, strict=False))
        array = pad(array, -(-wide // 2), -(-high // 2), wide // 2, high // 2, 0)
        top, left = ((length - edge) // 2 for length, edge in zip(array.shape, self.size, strict=False))
        return array[top : top + self.size[0], left : left + self.size[1]]


def pad(image: Array, left: int, top: int, right: int, bottom: int, fill_value: int | tuple[int, ...]) -> Array:
    """Return ``image`` with so many pixels of ``fill_value`` around it.

    Raises:
        DatasetError: if ``fill_value`` has several values, but not one for each channel.
    """
    if not (left or top or right or bottom):
        return image
    height, width = image.shape[:2]
    if isinstance(fill_value, tuple) and image.shape[2:] != (len(fill_value),):
        raise DatasetError(
            f"RandomCrop: fill_value is {fill_value}, but the image has shape {image.shape}; "
            "give one integer, or one for each channel"
        )
    padded = np.empty((top + height + bottom, left + width + right, *image.shape[2:]), dtype=image.dtype)
    padded[...] = fill_value
    padded[top : top + height, left : left + width] = image
    return padded


def _as_padding(padding: int | Sequence[int] | None) -> tuple[int, int, int, int]:
    """Return left, top, right, bottom."""
    if padding is None:
        return 0, 0, 0, 0
    listed = list(padding) if isinstance(padding, Sequence) else [padding]
    if len(listed) not in (1, 2, 4):
        raise DatasetError(
            f"RandomCrop: padding is {padding!r}; give one integer, (left and right, top and bottom) or "
            "(left, top, right, bottom)"
        )
    for side in listed:
        check_count("RandomCrop", "padding", side, 0)
    left, top, right, bottom = (listed * 4)[:4]
    return left, top, right, bottom
