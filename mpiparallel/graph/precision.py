"""The float type in which a part of a network computes, whatever the types of its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from mpiparallel.dtype import is_floating
from mpiparallel.graph.input_conversion import converting
from mpiparallel.graph.own_operators import Cast
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, active_trace


@contextmanager
def computing_in(dtype: np.dtype[Any]) -> Iterator[None]:
    """Let operators take parameters and constants of floats as ``dtype``."""
    with converting(partial(_in_precision, dtype)):
        yield


def cast_float(x: Any, dtype: np.dtype[Any]) -> Any:
    """Return a tensor of floats in another type of floats; all else as it is."""
    if not isinstance(x, Tensor) or not is_floating(x.dtype) or x.dtype == dtype:
        return x
    cast: Tensor = Cast()(x, dtype)
    return cast


def _in_precision(dtype: np.dtype[Any], tensor: Tensor) -> Tensor:
    """Return an input of an operator in a type of floats, where it is given rather than computed."""
    trace = active_trace()
    return _cast_once(tensor, dtype, trace) if _is_given(tensor, trace) else tensor


def _is_given(tensor: Tensor, trace: Trace | None) -> bool:
    """Return whether a tensor is a parameter or a constant; while nothing is traced, constants are not known."""
    return isinstance(tensor, Parameter) or (trace is not None and tensor.value is None)


def _cast_once(tensor: Tensor, dtype: np.dtype[Any], trace: Trace | None) -> Tensor:
    if not is_floating(tensor.dtype) or tensor.dtype == dtype:
        return tensor
    if trace is None or not isinstance(tensor, Parameter) or trace.notes.guards:
        cast: Tensor = Cast()(tensor, dtype)
        return cast
    casts = trace.cast_parameters.setdefault(tensor.name, {})
    if dtype not in casts:
        casts[dtype] = Cast()(tensor, dtype)
    known: Tensor = casts[dtype]
    return known
