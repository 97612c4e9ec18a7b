"""What an initializer is: a rule for the first values of a tensor, by its name and an element's index."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from mpiparallel.backend.counter_random import RandomBox, stream_key
from mpiparallel.context.seeds import get_seed
from mpiparallel.errors import ConfigurationError
from mpiparallel.layout.box import Box

InitialValues = np.ndarray[Any, Any]


class Initializer:
    """A rule for first values. Random ones depend on the seed, the tensor's name and an element's index.

    A subclass defines ``part``, or, as MindSpore's do, ``_initialize(array)``. The latter fills the whole array. For it
    NumPy's own generator is seeded by the seed and the tensor's name.

    Parameters
    ----------
    **attributes
        What a subclass is configured by.

    Examples
    --------
    >>> from mpiparallel.nn.initializer import initializer
    >>> class Rising(Initializer):
    ...     def _initialize(self, array):
    ...         array[:] = range(len(array))
    >>> initializer(Rising(), [3]).asnumpy().tolist()
    [0.0, 1.0, 2.0]
    """

    aliases: ClassVar[tuple[str, ...]] = ()
    """Names beside that of the class; the case of letters does not matter."""
    serial = 0
    """Which of the tensors without a name it fills; each has numbers of its own."""

    def __init__(self, **attributes: Any) -> None:
        self.seed = get_seed()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not cls.__name__.startswith("_"):
            INITIALIZERS.update({alias.lower(): cls for alias in (cls.__name__, *cls.aliases)})

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> InitialValues:
        """Return the values of ``box`` of the tensor ``name`` of ``shape``."""
        fill = getattr(self, "_initialize", None)
        if fill is None:
            raise ConfigurationError(
                f"initializer {type(self).__name__} has neither part(self, name, shape, box) nor "
                "_initialize(self, array); define one"
            )
        whole, state = np.zeros(shape, np.float32), np.random.get_state()
        np.random.seed(self.key(name) & 0xFFFFFFFF)
        try:
            fill(whole)
        finally:
            np.random.set_state(state)
        return whole[box.within(Box.whole(shape))]

    def key(self, name: str) -> int:
        """Return the key of the stream of random numbers of a tensor."""
        return stream_key(getattr(self, "seed", 0), name or f"tensor {self.serial}")

    def uniform(self, name: str, shape: tuple[int, ...], box: Box, low: float, high: float) -> InitialValues:
        """Return uniform numbers in (low, high)."""
        return low + (high - low) * np.asarray(RandomBox(np, shape, box).uniform(self.key(name)))

    def normal(self, name: str, shape: tuple[int, ...], box: Box, sigma: float, mean: float = 0.0) -> InitialValues:
        """Return normal numbers with standard deviation ``sigma`` around ``mean``."""
        return mean + sigma * np.asarray(RandomBox(np, shape, box).normal(self.key(name)))

    def __repr__(self) -> str:
        given = (f"{name}={item}" for name, item in vars(self).items() if name not in ("seed", "serial"))
        return f"{type(self).__name__}({', '.join(given)})"


INITIALIZERS: dict[str, type[Initializer]] = {}


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return how many inputs and outputs each unit has; dim 0 counts outputs, dim 1 inputs (MindSpore's order)."""
    if len(shape) < 2:
        raise ConfigurationError(
            f"a fan-based initializer needs a shape of at least two dims, not {shape}; use Normal or Zero"
        )
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field
