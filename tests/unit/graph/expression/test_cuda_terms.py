"""Which terms are written as CUDA texts, and how many neighbours a thread takes of arrays."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.dtype import bfloat16
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression.cuda import many_arrays
from mpiparallel.graph.expression.cuda.many_arrays import many_arrays_kernel
from mpiparallel.graph.expression.cuda.text import (
    computed_type,
    cuda_constant,
    cuda_formula,
    is_written,
    loaded,
    lowest,
    stored,
    stored_type,
)
from mpiparallel.graph.expression.kernel import expression_kernel
from mpiparallel.graph.expression.term import Term, call, operand, reduce


def x(dtype: Any) -> Term:
    return operand(0, (4, 8), np.dtype(dtype))


@pytest.mark.parametrize(
    ("term", "written"),
    [
        (reduce("max", x(np.float32), [1]), True),
        (reduce("max", x(np.float16), [1]), True),
        (reduce("max", x(np.int32), [1]), False),
        (reduce("sum", x(np.int32), [1]), True),
        (reduce("sum", x(np.int32), []), False),
        (x(np.complex64), False),
        (x(np.bool_), True),
        (call("where", x(np.bool_), x(np.float32), 0.0), True),
        (x(np.float32).astype(np.int8), True),
        (x(np.float32).astype(np.complex64), False),
    ],
)
def test_a_largest_is_of_floats_sums_go_over_dims_and_no_number_is_complex(term: Term, written: bool) -> None:
    assert is_written(term) is written


def column(*begins: int, dtype: Any = np.float32) -> list[Any]:
    """Return arrays that begin so many elements behind a multiple of 64 bytes."""
    found = []
    for begin in begins:
        memory = np.zeros(4096, np.uint8)
        first = -memory.ctypes.data % 64 + begin * np.dtype(dtype).itemsize
        found.append(memory[first : first + 32 * np.dtype(dtype).itemsize].view(dtype))
    return found


@pytest.mark.parametrize(
    ("columns", "width"),
    [
        ([column(0, 0)], 4),
        ([column(0, 4)], 4),
        ([column(0, 2)], 2),
        ([column(0, 1)], 1),
        ([column(0, dtype=np.float64)], 2),
        ([column(0, dtype=np.float16)], 8),
        ([column(4, dtype=np.float16)], 4),
        # All take as many as the widest type allows.
        ([column(0, dtype=np.float16), column(0)], 4),
        ([column(2, dtype=np.float16), column(0)], 2),
        ([column(0), [np.array(np.float64(2))]], 4),
    ],
)
def test_as_many_neighbours_are_taken_at_once_as_16_bytes_hold_from_where_all_arrays_begin(
    columns: list[list[Any]], width: int
) -> None:
    assert many_arrays._width(Runtime(), columns) == width


class Compiling(NumpyBackend):
    """It writes down what it is asked to bind."""

    def __init__(self) -> None:
        self.bound: list[str] = []
        self.kernels: Any = SimpleNamespace(bind=self.bind)

    def bind(self, name: str, *given: Any) -> Any:
        self.bound.append(name)
        return given


def test_one_launch_is_for_many_arrays_in_c_order_of_terms_that_are_written() -> None:
    backend = Compiling()
    root = operand(0, (2,), np.dtype(np.float32)) * 2.0
    matrix = np.zeros((4, 8), np.float32)
    assert many_arrays_kernel(Runtime(backend), [root], [[matrix, matrix]], [0]) is not None
    assert len(backend.bound) == 1
    assert many_arrays_kernel(Runtime(backend), [root], [[matrix, matrix.T]], [0]) is None
    unwritten = root.astype(np.complex64)
    assert many_arrays_kernel(Runtime(backend), [unwritten], [[matrix, matrix]], [0]) is None
    assert many_arrays_kernel(Runtime(), [root], [[matrix, matrix]], [0]) is None
    assert len(backend.bound) == 1


@pytest.mark.parametrize(
    ("dtype", "number", "text"),
    [
        (np.int32, 3, "(int)(3)"),
        (np.int64, -3, "(long long)(-3ll)"),
        (np.uint8, 3.0, "(unsigned char)(3)"),
        (np.bool_, True, "(bool)(1)"),
        (np.float32, 0.5, "(0.5f)"),
        (np.float64, 0.1, "(0.1)"),
        # The nearest number of the type.
        (np.float16, 0.1, "(0.0999755859375f)"),
        (np.float32, 16777217, "(16777216.0f)"),
        (np.float16, np.inf, "__int_as_float(0x7f800000)"),
        (np.float64, -np.inf, "(-__longlong_as_double(0x7ff0000000000000ll))"),
    ],
)
def test_a_number_is_written_as_c_has_it(dtype: Any, number: Any, text: str) -> None:
    term = call("add", x(dtype), number).operands[1]
    assert cuda_constant(term) == text


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: x(np.float32) + y(np.float32), "(a + b)"),
        (lambda: x(np.float32) + y(np.float64), "((double)(a) + b)"),
        (lambda: x(np.float64) - y(np.int32), "(a - (double)(b))"),
        (lambda: call("exp", x(np.float32)), "expf(a)"),
        (lambda: call("exp", x(np.float64)), "exp(a)"),
        (lambda: call("less", x(np.int32), y(np.int32)), "(a < b)"),
        (lambda: call("logical_and", x(np.bool_), y(np.bool_)), "(a && b)"),
        (lambda: call("where", x(np.bool_), y(np.float32), y(np.float32)), "(a ? b : b)"),
        (lambda: x(np.float32).astype(np.bool_), "(a != 0)"),
        (lambda: x(np.float32).astype(np.int8), "(signed char)(a)"),
        (lambda: x(np.float64).astype(np.float32), "(float)(a)"),
        (lambda: x(np.float64).astype(np.float16), "from_float16(to_float16((float)(a)))"),
        (lambda: x(np.float32).astype(bfloat16), "from_bfloat16(to_bfloat16((float)(a)))"),
    ],
)
def test_a_function_is_written_as_c_has_it_in_the_type_of_the_result(make: Callable[[], Term], text: str) -> None:
    names = {0: "a", 1: "b"}
    assert cuda_formula(make(), lambda term: names[term.number]) == text


def y(dtype: Any) -> Term:
    return operand(1, (4, 8), np.dtype(dtype))


def test_elements_of_16_bits_are_numbers_of_32_where_they_are_computed_with() -> None:
    half, single = np.dtype(np.float16), np.dtype(np.float32)
    assert [stored_type(one) for one in (half, single)] == ["unsigned short", "float"]
    assert [computed_type(one) for one in (half, single)] == ["float", "float"]
    assert [loaded(one, "a") for one in (half, single)] == ["from_float16(a)", "a"]
    assert [stored(one, "a") for one in (half, single)] == ["to_float16((float)(a))", "(float)(a)"]
    assert [lowest(np.dtype(one)) for one in (half, np.float64)] == [
        "(-__int_as_float(0x7f800000))",
        "(-__longlong_as_double(0x7ff0000000000000ll))",
    ]


def test_equal_texts_have_equal_names_and_others_have_others() -> None:
    backend = Compiling()
    term = operand(0, (64,), np.dtype(np.float64))
    for root in (term * 2.0, term * 2.0, term * 3.0):
        arrays = [NumpyBackend().empty(512).view(np.float64) for _ in range(2)]
        expression_kernel(Runtime(backend), [root], arrays[:1], arrays[1:])
    first, second, third = backend.bound
    assert first == second != third
