"""What becomes of the inputs of operators before they compute: tensors, in the type that is wanted around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from mpiparallel.errors import ShapeError
from mpiparallel.graph.tensor import DEFAULT_FLOAT, Tensor

Conversion = Callable[[Tensor], Tensor]

_CONVERSION: ContextVar[Conversion | None] = ContextVar("input_conversion", default=None)


@contextmanager
def converting(conversion: Conversion) -> Iterator[None]:
    """Let operators take what ``conversion`` makes of their inputs."""
    token = _CONVERSION.set(conversion)
    try:
        yield
    finally:
        _CONVERSION.reset(token)


def converted(tensors: list[Tensor]) -> list[Tensor]:
    """Return the inputs of an operator as it computes with them here."""
    conversion = _CONVERSION.get()
    return tensors if conversion is None else [conversion(tensor) for tensor in tensors]


def as_tensors(operator: str, inputs: Sequence[Any]) -> list[Tensor]:
    """Return what ``operator``, by its name, is given as tensors.

    Numbers take the dtype of the first tensor or array among the inputs; floats beside integers become float32. Raises
    ShapeError for what is no tensor, array or number.
    """
    known = next((item.dtype for item in inputs if isinstance(item, (Tensor, np.ndarray))), None)
    tensors = []
    for position, item in enumerate(inputs):
        if isinstance(item, Tensor):
            tensors.append(item)
        elif isinstance(item, (bool, int, float, np.generic)):
            dtype = np.asarray(item).dtype if known is None else known
            if isinstance(item, float) and (known is None or known.kind in "iub"):
                dtype = DEFAULT_FLOAT
            tensors.append(Tensor(np.asarray(item, dtype)))
        elif isinstance(item, (np.ndarray, list, tuple)):
            tensors.append(Tensor(item))
        else:
            raise ShapeError(
                f"{operator}: input {position} is a {type(item).__name__}; give a Tensor, an array or a number"
            )
    return tensors
