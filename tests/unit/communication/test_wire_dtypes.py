from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from mpiparallel.communication.protocol import Reduction
from mpiparallel.communication.transport.device_wire import DeviceWire
from mpiparallel.communication.wire_dtypes import UFUNCS, decode, encode, landing, wire_of

FLOATS = [np.float16, np.float32, np.float64]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("operation", ["max", "min"])
@given(values=st.lists(st.floats(), min_size=2, max_size=2))
def test_codes_of_floats_compare_like_the_floats(
    dtype: type[np.floating], operation: Reduction, values: list[float]
) -> None:
    with np.errstate(over="ignore"):
        numbers = np.array(values).astype(dtype)
    wire = wire_of(numbers.dtype, operation)
    winner = UFUNCS[operation].reduce(encode(numbers, wire), keepdims=True)
    result = np.empty(1, dtype)
    decode(winner, result, wire)
    assert_array_equal(result[0], UFUNCS[operation].reduce(numbers))


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_number_comes_back_from_its_code_bit_by_bit(dtype: type[np.floating]) -> None:
    numbers = np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.finfo(dtype).smallest_subnormal], dtype)
    wire = wire_of(numbers.dtype, "max")
    result = np.empty_like(numbers)
    decode(encode(numbers, wire), result, wire)
    assert_array_equal(result.view(np.uint8), numbers.view(np.uint8))


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint64, np.float32, np.float64, np.complex64, np.complex128])
def test_sums_travel_without_a_copy(dtype: type[np.generic]) -> None:
    array = np.ones(3, dtype)
    wire = wire_of(array.dtype, "sum")
    assert np.shares_memory(encode(array, wire), array)
    assert np.shares_memory(landing(array, wire), array)


@pytest.mark.parametrize(
    ("dtype", "operation", "is_plain"),
    [
        *((dtype, "sum", True) for dtype in (np.int8, np.int32, np.float32, np.complex64)),
        *((dtype, operation, False) for dtype in (np.int16, np.uint16, np.float16) for operation in ("sum", "max")),
        (np.float32, "max", False),
        (np.int32, "max", True),
    ],
)
def test_devices_reduce_as_they_are_only_elements_that_their_libraries_take(
    dtype: type[np.generic], operation: Reduction, is_plain: bool
) -> None:
    wire, view = DeviceWire(np.dtype(dtype), operation), np.ones(4, dtype)
    assert wire.is_plain is is_plain
    assert np.shares_memory(wire.pack(view), view) == is_plain
