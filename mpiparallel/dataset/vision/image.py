"""What the operations take for an image, and for a size of one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mpiparallel.dataset.stage import Array, check_count
from mpiparallel.errors import DatasetError


def as_image(operation: str, image: npt.ArrayLike) -> Array:
    """Return ``image`` as an array of shape (height, width, channels) or (height, width).

    Raises:
        DatasetError: if it has another number of dims, or no pixel.
    """
    array = np.asarray(image)
    if array.ndim not in (2, 3) or array.size == 0:
        raise DatasetError(
            f"{operation}: the image has shape {array.shape}; give one image, (height, width, channels) or "
            "(height, width), before batch"
        )
    return array


def as_color_image(operation: str, image: npt.ArrayLike) -> Array:
    """Return ``image`` as an array of three dims.

    Raises:
        DatasetError: if it has another number of dims.
    """
    array = np.asarray(image)
    if array.ndim != 3:
        raise DatasetError(
            f"{operation}: the image has shape {array.shape}; give one image of three dims, one of them the channels"
        )
    return array


def as_size(operation: str, size: int | Sequence[int]) -> tuple[int, int]:
    """Return ``size`` as (height, width); one integer is a square.

    Raises:
        DatasetError: if it is not one or two positive integers.
    """
    listed = list(size) if isinstance(size, Sequence) else [size, size]
    if len(listed) != 2:
        raise DatasetError(f"{operation}: size is {size!r}; give an integer, or (height, width)")
    for edge in listed:
        check_count(operation, "size", edge, 1)
    return int(listed[0]), int(listed[1])
