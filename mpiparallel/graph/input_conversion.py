"""What becomes of the inputs and outputs of operators: tensors, in the types that are wanted around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import numpy as np

from mpiparallel.errors import ShapeError
from mpiparallel.graph.tensor import DEFAULT_FLOAT, Tensor


class Conversion(Protocol):
    """Changes the types of what an operator, known by its name, takes and gives."""

    def inputs(self, operator: str, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return what the operator computes with."""

    def outputs(self, operator: str, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return what is made of its outputs."""


CONVERSION: ContextVar[Conversion | None] = ContextVar("conversion", default=None)
"""What converts the inputs and outputs of operators now."""


@contextmanager
def converting(conversion: Conversion | None) -> Iterator[None]:
    """Let operators take and give what ``conversion`` makes of their inputs and outputs; None changes nothing."""
    token = CONVERSION.set(conversion)
    try:
        yield
    finally:
        CONVERSION.reset(token)


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
