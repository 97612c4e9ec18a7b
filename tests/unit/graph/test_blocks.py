"""Blocks of arrays: together they are all elements once, and none is larger than a cache may hold."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from mpiparallel.errors import ShapeError
from mpiparallel.graph.blocks import Blockwise, element_blocks, row_blocks
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression.block_places import Place, block_places, block_size
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops import operations as P
from tests.conformance.hidden_arrays.backend import hidden_backend, install

Shape = tuple[int, ...]


@pytest.mark.parametrize(
    ("shape", "leading", "size", "blocks"),
    [
        ((6, 2), 1, 4, [(2, 2)] * 3),
        ((5, 2), 1, 4, [(2, 2), (2, 2), (1, 2)]),
        ((3, 4), 1, 2, [(1, 4)] * 3),
        ((3, 4), 1, 4, [(1, 4)] * 3),
        ((3, 4), 2, 5, [(5,), (5,), (2,)]),
        ((2, 3, 2), 2, 4, [(2, 2), (2, 2), (2, 2)]),
        ((4, 3), 0, 1, [(4, 3)]),
        ((0, 3), 1, 2, []),
        ((2, 0), 1, 1, [(1, 0), (1, 0)]),
    ],
)
def test_arrays_in_c_order_are_cut_into_rows_that_follow_one_another(
    shape: Shape, leading: int, size: int, blocks: list[Shape]
) -> None:
    array = np.arange(float(np.prod(shape))).reshape(shape)
    found = row_blocks([array, -array], leading, size)
    assert [one.shape for one, _ in found] == blocks
    assert all(np.shares_memory(one, array) for one, _ in found if one.size)
    assert [x for one, _ in found for x in one.ravel()] == array.ravel().tolist()
    assert all(np.array_equal(one, -other) for one, other in found)


@pytest.mark.parametrize(
    ("size", "blocks"),
    [
        (3, [(1, 4)] * 6),
        (4, [(1, 4)] * 6),
        (7, [(1, 4)] * 6),
        (8, [(2, 4), (1, 4)] * 2),
        (12, [(1, 3, 4)] * 2),
        (30, [(2, 3, 4)]),
    ],
)
def test_dims_of_strided_arrays_are_kept(size: int, blocks: list[Shape]) -> None:
    array = np.arange(48.0).reshape(2, 3, 8)[..., ::2]
    found = row_blocks([array], 2, size)
    assert [one.shape for (one,) in found] == blocks
    assert [x for (one,) in found for x in one.ravel()] == array.ravel().tolist()


def test_the_longest_of_the_arrays_decides_how_many_rows_a_block_has() -> None:
    wide, narrow = np.zeros((6, 4)), np.zeros((6, 1))
    assert [(x.shape, y.shape) for x, y in row_blocks([narrow, wide], 1, 8)] == [((2, 1), (2, 4))] * 3


def test_elements_are_cut_across_rows() -> None:
    found = element_blocks([np.arange(10).reshape(2, 5)], 4)
    assert [one.tolist() for (one,) in found] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_block_is_256_kib_of_float32_on_the_host_and_all_of_an_array_on_a_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch)
    assert block_size(Runtime()) * 4 == 256 * 1024
    assert block_size(Runtime(hidden_backend())) == sys.maxsize


@pytest.mark.parametrize(
    ("shape", "leading", "size", "places"),
    [
        ((5, 2), 1, 4, [(slice(0, 2),), (slice(2, 4),), (slice(4, 6),)]),
        ((2, 3, 2), 2, 4, [(slice(0, 1), slice(0, 2)), (slice(0, 1), slice(2, 4))]),
        ((2, 3, 2), 2, 6, [(slice(0, 1),)]),
        ((2, 3, 2), 1, 4, [(slice(0, 1),)]),
        ((2, 3), 0, 1, [()]),
        ((4,), 1, 1, [(slice(0, 1),)]),
        ((2, 0), 1, 3, [(slice(0, 3),)]),
    ],
)
def test_places_of_blocks_have_at_most_a_size_or_are_one_row(
    shape: Shape, leading: int, size: int, places: list[Place]
) -> None:
    found = block_places(shape, leading, size)
    assert found[: len(places)] == places
    counted = np.zeros(shape, int)
    for place in found:
        counted[place] += 1
    assert (counted == 1).all()
    assert all(counted[place].size for place in found) or not counted.size


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: P.Softmax(2)(np.ones((2, 3))), "axis 2 is out of range for 2 dims; use -2 to 1"),
        (lambda: P.Softmax(5)(np.ones((2, 3))), "axis 5 is out of range for 2 dims; use -2 to 1"),
        (lambda: P.Softmax(-3)(np.ones((2, 3))), "axis -3 is out of range for 2 dims; use -2 to 1"),
        (lambda: P.Softmax()(np.ones(3, np.int32)), "x is of dtype int32; cast it to a floating-point dtype"),
        (lambda: P.LogicalNot()(np.ones(3)), "input is of dtype float64; compare it, or cast it to bool"),
        (lambda: P.Gather()(np.ones(3), np.ones(2), 0), "is of dtype float64; cast it to an integer dtype"),
    ],
)
def test_what_an_operator_cannot_take_is_refused_with_what_to_do(call, said: str) -> None:
    with pytest.raises(ShapeError) as caught:
        call()
    assert str(caught.value).endswith(said)


def test_what_is_computed_in_blocks_is_of_floats_of_one_shape() -> None:
    kinds = ((2, 3), np.float64), ((2, 3), np.int64), ((2,), np.float64)
    rows, counts, column = (Tensor(np.ones(shape, dtype)).spec for shape, dtype in kinds)
    assert Blockwise().infer(rows, rows, rows) == (rows,)
    with pytest.raises(ShapeError, match=r"^input 1 has shape \(2,\); it must be \(2, 3\)$"):
        Blockwise().infer(rows, column, rows)
    with pytest.raises(ShapeError, match=r"^x is of dtype int64; cast it to a floating-point dtype$"):
        Blockwise().infer(counts, rows)
    assert Blockwise().equation(rows, column).inputs == (("d0", "d1"), ("d1",))
