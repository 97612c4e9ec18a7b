"""What operators have in common that compute the same."""

from __future__ import annotations

from collections.abc import Hashable
from operator import itemgetter
from typing import Final

from mpiparallel.graph.operator import Operator

_NO_DIFFERENCE: Final = ("scope", "step_of", "strategy", "out_strategy", "segment")
"""What an operator is called, and how its node is cut and kept."""


def operator_key(operator: Operator) -> Hashable:
    """Return what is equal for operators that compute the same.

    >>> from mpiparallel.ops import ReduceSum
    >>> operator_key(ReduceSum().shard(((2, 1),))) == operator_key(ReduceSum()) != operator_key(ReduceSum(True))
    True
    """
    settings = sorted(vars(operator).items(), key=itemgetter(0))
    key = type(operator), tuple(one for one in settings if one[0] not in _NO_DIFFERENCE)
    try:
        hash(key)
    except TypeError:
        return operator
    return key
