"""Which operators are priced once: those that compute the same, whatever they are called and however they are cut."""

from __future__ import annotations

from typing import Any

import pytest

from mpiparallel import ops
from mpiparallel.search.cost.operator_key import operator_key


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (ops.ReduceSum().configured(scope="network/ReduceSum"), True),
        (ops.ReduceSum().shard(((2, 1),), ((2,),)), True),
        (ops.ReduceSum(keep_dims=True), False),
        (ops.ReduceSum().configured(axis=(1,)), False),
        (ops.ReduceMax(), False),
    ],
)
def test_operators_of_one_kind_and_the_same_settings_are_priced_once(other: Any, is_same: bool) -> None:
    assert (operator_key(ops.ReduceSum()) == operator_key(other)) == is_same


def test_an_operator_whose_settings_have_no_hash_is_priced_alone() -> None:
    one, other = ops.ReduceSum(), ops.ReduceSum()
    one.notes, other.notes = [1], [1]
    assert operator_key(one) is one
    assert operator_key(other) is other
