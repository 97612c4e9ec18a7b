"""Images of another size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mpiparallel.dataset.stage import Array, check_count
from mpiparallel.dataset.vision.image import as_image, as_size
from mpiparallel.dataset.vision.interpolation import Inter, checked_interpolation, interpolated


class Resize:
    """Interpolates an image (H, W, C) or (H, W); the dtype stays.

    Pixels are areas, as in OpenCV's INTER_LINEAR, which MindSpore uses. Pixel x of n is centred at (x + 0.5) / n of the
    edge. Beyond the outermost centres the outermost pixels go on. There is no smoothing before an image is made
    smaller. Integers are rounded to the nearest; OpenCV's fixed-point arithmetic may give one less or more.

    Parameters
    ----------
    size : int or (int, int)
        Height and width in pixels; one integer is the length of the shorter edge, and the longer one keeps the ratio,
        rounded down.
    interpolation : Inter
        ``Inter.LINEAR``, ``NEAREST`` or ``CUBIC``.

    Raises
    ------
    DatasetError
        If ``size`` is not positive, or for an interpolation that is not offered.

    Examples
    --------
    >>> import numpy as np
    >>> Resize((1, 4))(np.array([[0, 100]], dtype=np.uint8))
    array([[  0,  25,  75, 100]], dtype=uint8)
    """

    def __init__(self, size: int | Sequence[int], interpolation: Inter = Inter.LINEAR) -> None:
        self.interpolation = checked_interpolation("Resize", interpolation)
        self.size: int | tuple[int, int]
        if isinstance(size, Sequence):
            self.size = as_size("Resize", size)
        else:
            check_count("Resize", "size", size, 1)
            self.size = int(size)

    def __call__(self, image: npt.ArrayLike) -> Array:
        """Return ``image`` in the new size."""
        array = as_image("Resize", image)
        height, width = self._target(array.shape[0], array.shape[1])
        exact = array.astype(np.result_type(array.dtype, np.float32), copy=False)
        exact = interpolated(interpolated(exact, 1, width, self.interpolation), 0, height, self.interpolation)
        if array.dtype.kind in "iu":
            # A cubic goes beyond the values that it is led through.
            bounds = np.iinfo(array.dtype)
            np.rint(exact, out=exact)
            exact = exact if self.interpolation is Inter.LINEAR else exact.clip(bounds.min, bounds.max)
        return exact.astype(array.dtype, copy=False)

    def _target(self, height: int, width: int) -> tuple[int, int]:
        if isinstance(self.size, tuple):
            return self.size
        shorter = min(height, width)
        return self.size * height // shorter, self.size * width // shorter
