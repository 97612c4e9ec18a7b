"""First values that are the same everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel.layout.box import Box
from mpiparallel.nn.initializer.rule import Initializer, InitialValues


class Constant(Initializer):
    """Every element is ``value``.

    Parameters
    ----------
    value : number or array
        It is broadcast to the tensor's shape.

    Examples
    --------
    >>> from mpiparallel.nn.initializer import initializer
    >>> initializer(Constant(3), [2]).asnumpy().tolist()
    [3.0, 3.0]
    """

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> InitialValues:
        if np.ndim(self.value) == 0:
            return np.full(box.shape, self.value)
        return np.broadcast_to(np.asarray(self.value), shape)[box.within(Box.whole(shape))]


class Zero(Constant):
    """Every element is 0.

    Examples
    --------
    >>> from mpiparallel.nn.initializer import initializer
    >>> initializer(Zero(), [2]).asnumpy().tolist()
    [0.0, 0.0]
    """

    aliases = ("zeros",)

    def __init__(self) -> None:
        super().__init__(0.0)


class One(Constant):
    """Every element is 1.

    Examples
    --------
    >>> from mpiparallel.nn.initializer import initializer
    >>> initializer(One(), [2]).asnumpy().tolist()
    [1.0, 1.0]
    """

    aliases = ("ones",)

    def __init__(self) -> None:
        super().__init__(1.0)
