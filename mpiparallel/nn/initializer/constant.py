"""First values that are the same everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel.layout.box import Box
from mpiparallel.nn.initializer.rule import Initializer, Values


class Constant(Initializer):
    """Every element is ``value``, a number or an array that is broadcast to the tensor's shape."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> Values:
        if np.ndim(self.value) == 0:
            return np.full(box.shape, self.value)
        return np.broadcast_to(np.asarray(self.value), shape)[box.within(Box.whole(shape))]


class Zero(Constant):
    """Every element is 0."""

    aliases = ("zeros",)

    def __init__(self) -> None:
        super().__init__(0.0)


class One(Constant):
    """Every element is 1."""

    aliases = ("ones",)

    def __init__(self) -> None:
        super().__init__(1.0)
