"""The float type in which a part of a network computes, whatever the types of its parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.registry import OPERATORS
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, active_trace

if TYPE_CHECKING:
    from mpiparallel.graph.operator import Operator

_PRECISION: ContextVar[np.dtype[Any] | None] = ContextVar("precision", default=None)


@contextmanager
def computing_in(dtype: np.dtype[Any]) -> Iterator[None]:
    """Let operators take parameters and constants of floats as ``dtype``."""
    token = _PRECISION.set(dtype)
    try:
        yield
    finally:
        _PRECISION.reset(token)


def cast_float(x: Any, dtype: np.dtype[Any]) -> Any:
    """Return a tensor of floats in another type of floats; all else as it is."""
    if not isinstance(x, Tensor) or x.dtype.kind != "f" or x.dtype == dtype:
        return x
    return x.astype(dtype)


def in_precision(operator: Operator, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the inputs of an operator as it computes with them here: what it overwrites or casts stays as it is."""
    dtype = _PRECISION.get()
    if dtype is None or operator.updates or operator.name == "Cast":
        return list(tensors)
    trace = active_trace()
    return [_cast_once(tensor, dtype, trace) if _is_given(tensor, trace) else tensor for tensor in tensors]


def _is_given(tensor: Tensor, trace: Trace | None) -> bool:
    """Return whether a tensor is a parameter or a constant; while nothing is traced, constants are not known."""
    return isinstance(tensor, Parameter) or (trace is not None and tensor.value is None)


def _cast_once(tensor: Tensor, dtype: np.dtype[Any], trace: Trace | None) -> Tensor:
    if tensor.dtype.kind != "f" or tensor.dtype == dtype:
        return tensor
    if trace is None or not isinstance(tensor, Parameter) or trace.guards:
        cast: Tensor = OPERATORS["Cast"]()(tensor, dtype)
        return cast
    key = tensor.name, dtype
    if key not in trace.cast_parameters:
        trace.cast_parameters[key] = OPERATORS["Cast"]()(tensor, dtype)
    known: Tensor = trace.cast_parameters[key]
    return known
