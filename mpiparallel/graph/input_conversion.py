"""What is done to the inputs of operators before they compute, where something is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from mpiparallel.graph.tensor import Tensor

if TYPE_CHECKING:
    from mpiparallel.graph.operator import Operator

Conversion = Callable[["Operator", Sequence[Tensor]], list[Tensor]]

_CONVERSION: ContextVar[Conversion | None] = ContextVar("input_conversion", default=None)


@contextmanager
def converting(conversion: Conversion) -> Iterator[None]:
    """Let operators take what ``conversion`` makes of their inputs."""
    token = _CONVERSION.set(conversion)
    try:
        yield
    finally:
        _CONVERSION.reset(token)


def converted(operator: Operator, tensors: list[Tensor]) -> list[Tensor]:
    """Return the inputs of an operator as it computes with them here."""
    conversion = _CONVERSION.get()
    return tensors if conversion is None else conversion(operator, tensors)
