"""Pixel values brought to another range."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mpiparallel.dataset.vision.image import as_color_image
from mpiparallel.errors import DatasetError

FloatImage = npt.NDArray[np.float32]


class Rescale:
    """Gives ``image * rescale + shift`` as float32, for an array of any shape.

    Parameters
    ----------
    rescale, shift : float
        Finite numbers.

    Raises
    ------
    DatasetError
        If a parameter is not a finite number.

    Examples
    --------
    >>> import numpy as np
    >>> Rescale(1 / 2, -1.0)(np.array([0, 3], dtype=np.uint8))
    array([-1. ,  0.5], dtype=float32)
    """

    def __init__(self, rescale: float, shift: float) -> None:
        for name, value in (("rescale", rescale), ("shift", shift)):
            if not isinstance(value, (int, float, np.number)) or not np.isfinite(value):
                raise DatasetError(f"Rescale: {name} is {value!r}; give a finite number")
        self.rescale = np.float32(rescale)
        self.shift = np.float32(shift)

    def __call__(self, image: npt.ArrayLike) -> FloatImage:
        """Return the scaled and shifted values."""
        scaled = np.array(image, dtype=np.float32)
        scaled *= self.rescale
        scaled += self.shift
        return scaled


class Normalize:
    """Gives ``(image - mean) / std`` of each channel as float32, for an image (H, W, C).

    Parameters
    ----------
    mean, std : sequence of float
        One for each channel, in the units of the image: after ``Rescale(1 / 255, 0)`` these are fractions of 1.
    is_hwc : bool
        False for an image (C, H, W).

    Raises
    ------
    DatasetError
        If a ``std`` is not positive, or the numbers of values differ; when called, if the image has another number of
        channels.

    Examples
    --------
    >>> import numpy as np
    >>> Normalize([1.0, 2.0], [2.0, 4.0])(np.array([[[3, 4]]]))
    array([[[1. , 0.5]]], dtype=float32)
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], is_hwc: bool = True) -> None:
        if len(mean) != len(std) or not mean or not np.all(np.isfinite(mean)):
            raise DatasetError(f"Normalize: mean is {mean!r} and std is {std!r}; give both one number for each channel")
        if not all(np.isfinite(value) and value > 0 for value in std):
            raise DatasetError(f"Normalize: std is {std!r}; give positive numbers, for they divide")
        self.is_hwc = is_hwc
        self.mean = np.array(mean, dtype=np.float32)
        self.std = np.array(std, dtype=np.float32)

    def __call__(self, image: npt.ArrayLike) -> FloatImage:
        """Return the normalized image."""
        array = as_color_image("Normalize", image)
        channels = array.shape[-1 if self.is_hwc else 0]
        if channels != self.mean.size:
            raise DatasetError(
                f"Normalize: an image of shape {array.shape} has {channels} channels, but mean has {self.mean.size} "
                f"values; give one for each channel, or is_hwc={not self.is_hwc}"
            )
        # Rows of whole pixels, or whole planes: NumPy is ten times slower along an inner dim of three.
        normalized = np.array(array, dtype=np.float32, order="C").reshape(array.shape[0], -1)
        repeats = array.shape[1] if self.is_hwc else 1
        shape = (1, -1) if self.is_hwc else (-1, 1)
        normalized -= np.tile(self.mean, repeats).reshape(shape)
        normalized /= np.tile(self.std, repeats).reshape(shape)
        return normalized.reshape(array.shape)
