"""Which parameters hold one number throughout, so that a failure needs no copy of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel.graph.parameter import Parameter
from mpiparallel.train.persistence.refilled_parameters import overwritable

LARGE = (1 << 17) + 5


def with_one(place: int) -> Any:
    array = np.zeros(LARGE, np.float32)
    array[place] = 1
    return array


@pytest.mark.parametrize(
    ("array", "is_one_number"),
    [
        (np.zeros(1, np.float32), True),
        (np.full((3, 5), 2.5), True),
        (np.full((2, 2), np.nan), True),
        (np.float32(7) * np.ones(LARGE, np.float32), True),
        (np.ones((), np.int32), True),
        (np.array([1, 1, 2]), False),
        (np.array([1, 2, 1]), False),
        # Equal as numbers, not by their bits: a copy would differ.
        (np.array([0.0, -0.0, 0.0]), False),
        (np.zeros(0, np.float32), False),
        *((with_one(place), False) for place in (0, 1, (1 << 16) - 1, 1 << 16, 1 << 17, LARGE - 2, LARGE - 1)),
    ],
)
def test_a_parameter_of_one_number_may_be_overwritten_and_has_it_again_after_a_failure(
    array: Any, is_one_number: bool
) -> None:
    parameters = {"held": Parameter(array.copy(), "held"), "other": Parameter(np.arange(2.0), "other")}

    def fail() -> None:
        with overwritable(parameters) as arrays:
            assert list(arrays) == ["held"] * is_one_number
            for given in arrays.values():
                assert given is parameters["held"].array
                given[...] = 9
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    np.testing.assert_array_equal(parameters["held"].asnumpy(), array)
    with overwritable(parameters) as arrays:
        for given in arrays.values():
            given[...] = 9
    assert (parameters["held"].asnumpy() == 9).all() == (is_one_number or not array.size)
