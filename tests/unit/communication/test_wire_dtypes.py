from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from mpiparallel.communication.protocol import Reduction
from mpiparallel.communication.transport.device_wire import DeviceWire
from mpiparallel.communication.wire_dtypes import UFUNCS, Wire, decode, encode, landing, wire_of
from mpiparallel.dtype import bfloat16
from mpiparallel.errors import CommunicationError

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


@pytest.mark.parametrize(
    ("dtype", "operation", "travels_as", "by"),
    [
        *((bool, operation, np.uint8, by) for operation, by in zip(("sum", "prod"), ("max", "min"), strict=True)),
        *((bool, operation, np.uint8, operation) for operation in ("max", "min")),
        *((code, "sum", code, "sum") for code in "bhilqBHILQfdFD"),
        *((code, "max", code, "max") for code in "bhilqBHILQ"),
        *(
            (narrow, operation, np.float32, operation)
            for narrow in (np.float16, bfloat16)
            for operation in ("sum", "prod")
        ),
        *(
            (narrow, operation, np.int16, operation)
            for narrow in (np.float16, bfloat16)
            for operation in ("max", "min")
        ),
        (np.float32, "min", np.int32, "min"),
        (np.float64, "max", np.int64, "max"),
    ],
)
def test_each_dtype_travels_as_the_table_has_it(dtype: Any, operation: Reduction, travels_as: Any, by: str) -> None:
    ordered = operation in ("max", "min") and np.dtype(dtype) in (np.float16, bfloat16, np.float32, np.float64)
    assert wire_of(np.dtype(dtype), operation) == Wire(np.dtype(travels_as), by, ordered)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dtype", "operation", "words"),
    [
        ("f4", "mean", 'reduction "mean" is not known; use one of sum, max, min, prod'),
        (">f4", "sum", "arrays of dtype >f4 are not in native byte order; convert with .astype"),
        ("c8", "max", "max of complex64: complex numbers have no order; reduce their parts"),
        ("c16", "min", "min of complex128: complex numbers have no order; reduce their parts"),
        ("U3", "sum", "arrays of dtype <U3 cannot be reduced; convert to bool, integers, float or complex"),
        ("g", "sum", "arrays of dtype float128 cannot be reduced; convert to bool, integers, float or complex"),
        (
            "M8[s]",
            "max",
            "arrays of dtype datetime64[s] cannot be reduced; convert to bool, integers, float or complex",
        ),
    ],
)
def test_what_cannot_be_reduced_is_refused_by_its_dtype(dtype: str, operation: Any, words: str) -> None:
    with pytest.raises(CommunicationError) as caught:
        wire_of(np.dtype(dtype), operation)
    assert str(caught.value) == words


def test_sums_of_narrow_floats_land_in_memory_of_their_own_and_become_inf_beyond_the_largest() -> None:
    array = np.array([1, 2], np.float16)
    wire = wire_of(array.dtype, "sum")
    place = landing(array, wire)
    assert (place.dtype, place.shape, np.shares_memory(place, array)) == (np.float32, (2,), False)
    assert encode(array, wire).tolist() == [1, 2]
    with np.errstate(all="raise"):
        decode(np.array([70000, -0.5], np.float32), array, wire)
    assert array.tolist() == [np.inf, -0.5]


@pytest.mark.parametrize(("operation", "winner"), [("max", 1), ("min", -1)])
def test_nan_of_any_sign_wins_over_the_infinities(operation: Reduction, winner: int) -> None:
    for dtype in FLOATS:
        numbers = np.array([np.nan, winner * np.inf, -np.nan], dtype)
        codes = encode(numbers, wire_of(numbers.dtype, operation)).tolist()
        assert codes[0] == codes[2]
        assert codes[0] * winner > codes[1] * winner


def test_a_result_elsewhere_is_put_into_the_array_and_one_in_it_stays() -> None:
    array = np.array([True, False])
    wire = wire_of(array.dtype, "sum")
    decode(np.array([0, 1], np.uint8), array, wire)
    assert array.tolist() == [False, True]
    decode(array.view(np.uint8), array, wire)
    assert array.tolist() == [False, True]
