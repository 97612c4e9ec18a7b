"""An image in patches."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from mpiparallel.dataset.stage import Array, check_count
from mpiparallel.dataset.vision.crop import pad
from mpiparallel.dataset.vision.image import as_image
from mpiparallel.errors import DatasetError


class SliceMode(IntEnum):
    """What becomes of pixels that do not fill a patch: PAD fills it, DROP leaves them out.

    Examples
    --------
    >>> SliceMode.PAD.name
    'PAD'
    """

    PAD = 0
    DROP = 1


class SlicePatches:
    """Cuts an image (H, W, C) or (H, W) into equal patches, row by row.

    ``map`` with as many ``output_columns`` makes columns of them.

    Parameters
    ----------
    num_height, num_width : int
        How many.
    slice_mode : SliceMode
        Where they do not come out even, PAD makes the image larger at the bottom and right, and DROP cuts off what is
        over.
    fill_value : int
        Of the new pixels, 0 to 255.

    Raises
    ------
    DatasetError
        For a parameter without meaning, and for an image that is too small.

    Examples
    --------
    >>> import numpy as np
    >>> [patch.tolist() for patch in SlicePatches(1, 2)(np.arange(3).reshape(1, 3))]
    [[[0, 1]], [[2, 0]]]
    """

    def __init__(
        self, num_height: int = 1, num_width: int = 1, slice_mode: SliceMode = SliceMode.PAD, fill_value: int = 0
    ) -> None:
        check_count("SlicePatches", "num_height", num_height, 1)
        check_count("SlicePatches", "num_width", num_width, 1)
        check_count("SlicePatches", "fill_value", fill_value, 0)
        if fill_value > 255:
            raise DatasetError(f"SlicePatches: fill_value is {fill_value!r}; give an integer from 0 to 255")
        if not isinstance(slice_mode, SliceMode):
            raise DatasetError(f"SlicePatches: slice_mode is {slice_mode!r}; give SliceMode.PAD or SliceMode.DROP")
        self.counts = num_height, num_width
        self.slice_mode = slice_mode
        self.fill_value = fill_value

    def __call__(self, image: npt.ArrayLike) -> tuple[Array, ...] | Array:
        """Return the patches; the one alone where there is one."""
        array = as_image("SlicePatches", image)
        if array.shape[0] < self.counts[0] or array.shape[1] < self.counts[1]:
            raise DatasetError(
                f"SlicePatches: an image of {array.shape[:2]} cannot be cut into {self.counts} patches; give fewer"
            )
        lengths = zip(array.shape, self.counts, strict=False)
        if self.slice_mode is SliceMode.PAD:
            high, wide = (-length % count for length, count in lengths)
            array = pad(array, 0, 0, wide, high, self.fill_value)
        else:
            high, wide = (length - length % count for length, count in lengths)
            array = array[:high, :wide]
        rows = np.split(array, self.counts[0], axis=0)
        patches = tuple(patch for row in rows for patch in np.split(row, self.counts[1], axis=1))
        return patches if len(patches) > 1 else patches[0]
