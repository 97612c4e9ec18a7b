"""The channels of an image put before its rows, as convolutions take them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mpiparallel.dataset.stage import Array
from mpiparallel.dataset.vision.image import as_color_image, as_image
from mpiparallel.errors import DatasetError


class HWC2CHW:
    """Turns an image (H, W, C) to (C, H, W); the dtype stays.

    Examples
    --------
    >>> import numpy as np
    >>> HWC2CHW()(np.zeros((32, 64, 3))).shape
    (3, 32, 64)
    """

    def __call__(self, image: npt.ArrayLike) -> Array:
        """Return the turned image, its elements in the new order in memory.

        Raises:
            DatasetError: if the image has no three dims.
        """
        return np.ascontiguousarray(as_color_image("HWC2CHW", image).transpose(2, 0, 1))


class ToTensor:
    """Turns an image (H, W, C) or (H, W) of 0 to 255 to (C, H, W) of 0.0 to 1.0 in ``output_type``.

    Parameters
    ----------
    output_type : dtype
        Of floating point.

    Raises
    ------
    DatasetError
        If ``output_type`` is no float dtype.

    Examples
    --------
    >>> import numpy as np
    >>> ToTensor()(np.full((1, 2), 255, dtype=np.uint8))
    array([[[1., 1.]]], dtype=float32)
    """

    def __init__(self, output_type: npt.DTypeLike = np.float32) -> None:
        self.output_type: np.dtype[Any] = np.dtype(output_type)
        if self.output_type.kind != "f":
            raise DatasetError(
                f"ToTensor: output_type is {self.output_type}; give a float dtype, for values are below 1"
            )

    def __call__(self, image: npt.ArrayLike) -> Array:
        """Return the scaled image, its channels first."""
        array = as_image("ToTensor", image)
        planes = array[np.newaxis] if array.ndim == 2 else np.ascontiguousarray(array.transpose(2, 0, 1))
        return (planes.astype(np.result_type(np.float32, self.output_type)) / 255).astype(self.output_type, copy=False)
