"""Images of another size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mpiparallel.dataset.stage import Array, check_count
from mpiparallel.dataset.vision.image import as_image, as_size


class Resize:
    """Interpolates an image (H, W, C) or (H, W) to ``size`` bilinearly; the dtype stays.

    ``size`` is (height, width); one integer is the length of the shorter edge, and the longer one keeps the ratio,
    rounded down. Pixels are areas, as in OpenCV's INTER_LINEAR, which MindSpore uses: pixel x of n is centred at
    (x + 0.5) / n of the edge, and beyond the outermost centres the outermost pixels go on. There is no smoothing before
    an image is made smaller. Integers are rounded to the nearest; OpenCV's fixed-point arithmetic may give one less or
    more.

    >>> import numpy as np
    >>> Resize((1, 4))(np.array([[0, 100]], dtype=np.uint8))
    array([[  0,  25,  75, 100]], dtype=uint8)

    Raises:
        DatasetError: if ``size`` is not positive.
    """

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = size if isinstance(size, int) else as_size("Resize", size)
        if isinstance(self.size, int):
            check_count("Resize", "size", self.size, 1)

    def __call__(self, image: npt.ArrayLike) -> Array:
        """Return ``image`` in the new size."""
        array = as_image("Resize", image)
        height, width = self._target(array.shape[0], array.shape[1])
        exact = array.astype(np.result_type(array.dtype, np.float32), copy=False)
        exact = _interpolated(_interpolated(exact, 1, width), 0, height)
        if array.dtype.kind in "iu":
            np.rint(exact, out=exact)
        return exact.astype(array.dtype, copy=False)

    def _target(self, height: int, width: int) -> tuple[int, int]:
        if isinstance(self.size, tuple):
            return self.size
        shorter = min(height, width)
        return self.size * height // shorter, self.size * width // shorter


def _interpolated(image: Array, dim: int, target: int) -> Array:
    """Return ``image`` with ``target`` pixels along ``dim``."""
    length = image.shape[dim]
    if length == target:
        return image
    centres = np.clip((np.arange(target) + 0.5) * (length / target) - 0.5, 0, length - 1)
    before = centres.astype(np.intp)
    after = np.minimum(before + 1, length - 1)
    weight = (centres - before).astype(image.dtype).reshape([-1 if d == dim else 1 for d in range(image.ndim)])
    first = np.take(image, before, axis=dim)
    step: Array = np.take(image, after, axis=dim)
    step -= first
    step *= weight
    step += first
    return step
