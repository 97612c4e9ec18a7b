"""Images mirrored at random."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mpiparallel.dataset.stage import Array
from mpiparallel.dataset.vision.image import as_image
from mpiparallel.errors import DatasetError


class RandomHorizontalFlip:
    """Swaps left and right of an image (H, W, C) or (H, W) at random.

    Parameters
    ----------
    prob : float
        The probability, 0 to 1.

    Raises
    ------
    DatasetError
        If it is not from 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> RandomHorizontalFlip(prob=1.0)(np.array([[1, 2, 3]]), generator=np.random.default_rng(1))
    array([[3, 2, 1]])
    """

    random = True

    def __init__(self, prob: float = 0.5) -> None:
        if isinstance(prob, bool) or not isinstance(prob, (int, float)) or not 0 <= prob <= 1:
            raise DatasetError(f"RandomHorizontalFlip: prob is {prob!r}; give a number from 0 to 1")
        self.prob = prob

    def __call__(self, image: npt.ArrayLike, *, generator: np.random.Generator) -> Array:
        """Return the image or its mirror image, as ``generator`` draws."""
        array = as_image("RandomHorizontalFlip", image)
        return array[:, ::-1] if generator.random() < self.prob else array
