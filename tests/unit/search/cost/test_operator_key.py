"""Which operators are priced once: those that compute the same."""

from __future__ import annotations

from mpiparallel import ops
from mpiparallel.search.cost.operator_key import operator_key


def test_an_operator_whose_settings_have_no_hash_is_priced_alone() -> None:
    one, other = ops.ReduceSum(), ops.ReduceSum()
    assert operator_key(one) == operator_key(other)
    one.notes, other.notes = [1], [1]
    assert operator_key(one) is one
    assert operator_key(other) is other
