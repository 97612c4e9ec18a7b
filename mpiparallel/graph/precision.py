"""The float types in which a part of a network computes, whatever the types of its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel.dataclass import dataclass
from mpiparallel.dtype import common_dtype, is_floating
from mpiparallel.graph.own_operators import Cast
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import DEFAULT_FLOAT, Tensor
from mpiparallel.graph.trace import Trace, active_trace


@dataclass(frozen=True)
class OneType:
    """Operators take parameters and constants of floats as ``dtype``; what is computed is of it then."""

    dtype: np.dtype[Any]

    def inputs(self, operator: str, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the inputs of any operator, with those cast that are given rather than computed."""
        trace = active_trace()
        return [_cast_once(one, self.dtype, trace) if _is_given(one, trace) else one for one in tensors]

    def outputs(self, operator: str, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return the outputs of any operator, as they are."""
        return tensors


@dataclass(frozen=True)
class TypeByOperator:
    """Operators take floats in a type that depends on their names.

    Those of ``narrow`` take them as ``dtype``, those of ``wide`` as float32 or wider. Those of ``common`` take them in
    the widest type among their inputs, all others as they come. With ``gives_wide`` the outputs of ``narrow`` are
    float32.
    """

    dtype: np.dtype[Any]
    narrow: frozenset[str]
    wide: frozenset[str] = frozenset()
    common: frozenset[str] = frozenset()
    gives_wide: bool = False

    def inputs(self, operator: str, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the inputs of an operator in the type for its name."""
        wanted = self._wanted(operator, tensors)
        trace = active_trace()
        return list(tensors) if wanted is None else [_cast_once(one, wanted, trace) for one in tensors]

    def outputs(self, operator: str, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return the outputs of an operator in the type for its name."""
        if not self.gives_wide or operator not in self.narrow:
            return tensors
        return tuple(cast_float(one, np.dtype(DEFAULT_FLOAT)) for one in tensors)

    def _wanted(self, operator: str, tensors: Sequence[Tensor]) -> np.dtype[Any] | None:
        if operator in self.narrow:
            return self.dtype
        floats = [np.dtype(one.dtype) for one in tensors if is_floating(one.dtype)]
        if operator in self.wide:
            return common_dtype(np.dtype(DEFAULT_FLOAT), *floats)
        return common_dtype(*floats) if floats and operator in self.common else None


Precision = OneType | TypeByOperator


def cast_float(x: Any, dtype: np.dtype[Any]) -> Any:
    """Return a tensor of floats in another type of floats; all else as it is."""
    if not isinstance(x, Tensor) or not is_floating(x.dtype) or x.dtype == dtype:
        return x
    cast: Tensor = Cast()(x, dtype)
    return cast


def cast_floats(tree: Any, dtype: np.dtype[Any] | None) -> Any:
    """Return a tensor, or a tuple or list of what may be tensors, in another type of floats; None changes nothing."""
    if dtype is None:
        return tree
    if type(tree) in (tuple, list):
        return type(tree)(cast_floats(one, dtype) for one in tree)
    return cast_float(tree, dtype)


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
