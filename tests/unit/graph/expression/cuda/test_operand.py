"""How a CUDA text reaches the elements of arrays: steps, neighbours in one access, and how far places may lie."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression.cuda.many_arrays import many_arrays_kernel
from mpiparallel.graph.expression.cuda.operand import CudaOperand, index_type, vector_width
from mpiparallel.graph.expression.kernel import expression_kernel
from mpiparallel.graph.expression.term import operand

Shape = tuple[int, ...]


def seen(array: Any, shape: Shape, address: int = 0) -> CudaOperand:
    return CudaOperand(3, array, address, shape, False)


def zeros(shape: Shape, dtype: Any = np.float32) -> Any:
    return np.zeros(shape, dtype)


@pytest.mark.parametrize(
    ("array", "shape", "steps", "counted", "reach", "offset"),
    [
        (zeros((2, 3, 4)), (2, 3, 4), (12, 4, 1), [0, 1], 24, "x * s3_0 + y * s3_1 + z"),
        (zeros((2, 1, 4)), (2, 3, 4), (4, 0, 1), [0], 8, "x * s3_0 + z"),
        (zeros((1, 3, 1)), (2, 3, 4), (0, 1, 0), [1], 3, "y * s3_1"),
        (zeros((1, 1, 1)), (2, 3, 4), (0, 0, 0), [], 1, ""),
        (zeros((2, 3, 8))[..., ::2], (2, 3, 4), (24, 8, 2), [0, 1, 2], 47, "x * s3_0 + y * s3_1 + z * s3_2"),
        (zeros((4, 3, 2)).T, (2, 3, 4), (1, 2, 6), [0, 1, 2], 24, "x * s3_0 + y * s3_1 + z * s3_2"),
        (zeros((2, 3, 4))[::-1], (2, 3, 4), (-12, 4, 1), [0, 1], 24, "x * s3_0 + y * s3_1 + z"),
        (zeros((2, 1, 4)), (2, 1, 4), (4, 0, 1), [0], 8, "x * s3_0 + z"),
    ],
)
def test_an_array_steps_where_it_has_elements_and_neighbours_need_no_stride(
    array: Any, shape: Shape, steps: Shape, counted: list[int], reach: int, offset: str
) -> None:
    one = seen(array, shape)
    assert (one.steps, one.counted(), one.reach()) == (steps, counted, reach)
    assert one.offset({0: "x", 1: "y", 2: "z"}) == offset
    assert one.is_dense == (steps[-1] == 1)


@pytest.mark.parametrize(
    ("array", "address", "widths"),
    [
        (zeros((4, 16)), 0, 4),
        (zeros((4, 16)), 48, 4),
        (zeros((4, 16)), 8, 2),
        (zeros((4, 16)), 4, 1),
        (zeros((4, 16), np.float64), 16, 2),
        (zeros((4, 16), np.float64), 8, 1),
        (zeros((4, 16), np.float16), 16, 8),
        (zeros((4, 16), np.float16), 4, 2),
        (zeros((4, 16), np.int8), 32, 16),
        (zeros((4, 16), np.int8), 24, 8),
        (zeros((4, 18))[:, :16], 0, 2),
        (zeros((4, 17))[:, :16], 0, 1),
        (zeros((4, 32))[:, ::2], 0, 0),
        (zeros((4, 1)), 0, 0),
    ],
)
def test_neighbours_in_one_access_are_those_of_16_bytes_that_address_and_strides_allow(
    array: Any, address: int, widths: int
) -> None:
    assert seen(array, (4, 16), address).widths() == widths


FOUR, EIGHT = zeros((1, 64)), zeros((1, 64), np.float16)


@pytest.mark.parametrize(
    ("arrays", "extent", "lanes", "width"),
    [
        ([FOUR], 64, 1, 4),
        ([EIGHT], 64, 1, 8),
        ([EIGHT, FOUR], 64, 1, 4),
        ([zeros((1, 1))], 64, 1, 1),
        ([FOUR, zeros((1, 1))], 64, 1, 4),
        ([], 64, 1, 1),
        ([FOUR], 62, 1, 2),
        ([FOUR], 63, 1, 1),
        # With 32 threads 64 numbers are two for each; four are as many as one thread takes.
        ([FOUR], 64, 32, 2),
        ([FOUR], 128, 32, 4),
        ([FOUR], 4, 32, 4),
        ([FOUR], 8, 32, 1),
    ],
)
def test_a_thread_takes_as_many_neighbours_as_all_arrays_allow_and_leaves_no_thread_without_any(
    arrays: list[Any], extent: int, lanes: int, width: int
) -> None:
    assert vector_width([seen(one, (1, 64)) for one in arrays], extent, lanes) == width


@pytest.mark.parametrize(
    ("count", "stride", "kind"),
    [(2, 1, "int"), ((1 << 30) - 1, 1, "int"), (1 << 30, 1, "long long"), (2, 1 << 30, "long long")],
)
def test_indices_have_64_bits_only_where_a_place_may_lie_so_far(count: int, stride: int, kind: str) -> None:
    far = SimpleNamespace(shape=(2,), strides=(4 * stride,), dtype=np.dtype(np.float32))
    assert index_type([seen(far, (2,))], count) == kind


class Binding(NumpyBackend):
    """It writes down with what a kernel is bound: its blocks, its threads and its arguments."""

    def __init__(self) -> None:
        self.bound: list[tuple[int, int, tuple[Any, ...]]] = []
        self.kernels: Any = SimpleNamespace(bind=self.bind)

    def bind(self, _name: str, _text: str, blocks: int, threads: int, arguments: tuple[Any, ...]) -> Any:
        self.bound.append((blocks, threads, arguments))


@pytest.mark.parametrize(
    ("count", "dtype", "blocks"),
    [(1, np.float64, 1), (512, np.float64, 1), (514, np.float64, 2), (1024, np.float32, 1), (1025, np.float32, 5)],
)
def test_each_block_has_256_threads_that_take_neighbours(count: int, dtype: Any, blocks: int) -> None:
    backend, x, y = Binding(), zeros((count,), dtype), zeros((count,), dtype)
    if x.ctypes.data % 16 or y.ctypes.data % 16:
        x, y = (NumpyBackend().empty(count * x.itemsize).view(dtype) for _ in range(2))
    expression_kernel(Runtime(backend), [operand(0, x.shape, x.dtype) * 2.0], [x], [y])
    assert [one[:2] for one in backend.bound] == [(blocks, 256)]


def test_each_block_of_many_arrays_has_4096_elements_of_one_of_them() -> None:
    backend, sizes = Binding(), [1, 4096, 4097, 10000]
    arrays = [zeros((size,)) for size in sizes]
    term = operand(0, (2,), np.dtype(np.float32)) * 2.0
    many_arrays_kernel(Runtime(backend), [term], [arrays], [0])
    ((blocks, threads, (owners, starts, extents, table)),) = backend.bound
    assert (blocks, threads) == (7, 256)
    assert owners.tolist() == [0, 1, 2, 2, 3, 3, 3]
    assert starts.tolist() == [0, 0, 0, 4096, 0, 4096, 8192]
    assert extents.tolist() == sizes
    assert [one is other for one, other in zip(table.arrays, arrays, strict=True)] == [True] * 4
