"""What an operator of one's own has to stand: central differences, and every legal strategy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel.dtype import is_floating
from mpiparallel.graph.operator import Operator
from mpiparallel.testing.case_program import check_gradient_of
from mpiparallel.testing.case_strategies import RANK_COUNTS, check_strategies_of
from mpiparallel.testing.operator_case import OperatorCase

STEP = 1e-6


def check_gradient(
    operator: Operator, *inputs: Any, outputs: Sequence[int] = (0,), rtol: float = 1e-6, atol: float = 1e-7
) -> None:
    """Compare the gradient of an operator with central differences, on one rank.

    Parameters
    ----------
    operator : Operator
        As it is called in a network.
    *inputs : array_like
        Of any shapes. Floats are taken as float64, and have gradients; integers and booleans have none. Keep away from
        where the function has a kink: each element is changed by 1e-6.
    outputs : sequence of int
        The outputs that have a gradient.
    rtol, atol : float
        How far both may differ: relative, and absolute.

    Raises
    ------
    AssertionError
        With the input and the elements where they differ.

    Examples
    --------
    >>> from mpiparallel import ops
    >>> check_gradient(ops.MatMul(), [[1.0, 2.0]], [[3.0], [4.0]])
    """
    check_gradient_of(_case(operator, inputs, outputs), STEP, rtol, atol)


def check_strategies(
    operator: Operator,
    *inputs: Any,
    outputs: Sequence[int] = (0,),
    ranks: Sequence[int] = RANK_COUNTS,
    rtol: float = 1e-11,
    atol: float = 1e-12,
) -> None:
    """Compare an operator under every legal strategy with itself on one rank: values and gradients, on every rank.

    Ranks are threads, so neither MPI nor a launcher is needed. Choose dims that the numbers of ranks divide, and some
    that they do not: uneven cuts are legal strategies too.

    Parameters
    ----------
    operator : Operator
        As it is called in a network.
    *inputs : array_like
        The global inputs; floats are taken as float64.
    outputs : sequence of int
        The outputs that have a gradient; none, and no gradient is compared.
    ranks : sequence of int
        On how many ranks it is tried.
    rtol, atol : float
        How far both may differ: relative, and absolute.

    Raises
    ------
    AssertionError
        With the strategy, the result and the elements where they differ.

    Examples
    --------
    >>> import numpy as np
    >>> from mpiparallel import ops
    >>> check_strategies(ops.Softmax(), np.arange(12.0).reshape(4, 3), ranks=(1, 2, 4))
    """
    check_strategies_of(_case(operator, inputs, outputs), ranks, rtol, atol)


def _case(operator: Operator, inputs: Sequence[Any], outputs: Sequence[int]) -> OperatorCase:
    arrays = tuple(_in_float64(np.asarray(one)) for one in inputs)
    floats = tuple(place for place, array in enumerate(arrays) if is_floating(array.dtype))
    return OperatorCase(operator.name, lambda: operator, arrays, (), floats if outputs else (), tuple(outputs))


def _in_float64(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.astype(np.float64) if is_floating(array.dtype) else array
