"""Which terms are written as CUDA texts, and how many neighbours a thread takes of arrays."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression.cuda import many_arrays
from mpiparallel.graph.expression.cuda.many_arrays import many_arrays_kernel
from mpiparallel.graph.expression.cuda.text import is_written
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
