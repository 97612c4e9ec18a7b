"""Several operations as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mpiparallel.errors import DatasetError

Operation = Callable[..., Any]


class Compose:
    """Applies operations one after the other; each gets what the one before it gave.

    An operation with a true attribute ``random`` is also called with ``generator``, a ``numpy.random.Generator`` that
    depends only on the seed, the epoch and the sample. So augmentation is the same for any number of ranks and after a
    resume.

    Parameters
    ----------
    transforms : sequence of callable
        In order.

    Raises
    ------
    DatasetError
        If there is no operation, or one cannot be called.

    Examples
    --------
    >>> Compose([abs, lambda value: value + 1])(-3)
    4
    """

    def __init__(self, transforms: Sequence[Operation]) -> None:
        if not transforms:
            raise DatasetError("Compose: there is no operation; give a list of at least one")
        for transform in transforms:
            if not callable(transform):
                raise DatasetError(f"Compose: {transform!r} cannot be called; give functions or transforms")
        self.transforms = tuple(transforms)
        self.random = any(getattr(transform, "random", False) for transform in transforms)

    def __call__(self, *values: Any, generator: np.random.Generator | None = None) -> Any:
        """Return the last operation's result: one value, or a tuple if it gives several."""
        for transform in self.transforms:
            drawn = {"generator": generator} if getattr(transform, "random", False) else {}
            result = transform(*values, **drawn)
            values = result if isinstance(result, tuple) else (result,)
        return values[0] if len(values) == 1 else values

    def __repr__(self) -> str:
        names = (getattr(transform, "__name__", type(transform).__name__) for transform in self.transforms)
        return ", ".join(names)
