"""Products as few stacks of matrices: made again from their strides alone, they are NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.products.product_layout import Matrices, StackedProduct, stacked

RANDOM = np.random.default_rng(3)


def numbers(*shape: int) -> Any:
    return RANDOM.integers(-4, 5, shape).astype(np.float64)


def turned(array: Any) -> Any:
    return np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2)


def matrix(array: Any, lies: Matrices, start: int, shape: tuple[int, int]) -> Any:
    """Return a view of a matrix by what is said of its place, in elements from the first one of an array."""
    step = (1, lies.leading) if lies.is_turned else (lies.leading, 1)
    base = np.lib.stride_tricks.as_strided(array, (1 << 20,), (array.itemsize,))
    return np.lib.stride_tricks.as_strided(base[start:], shape, tuple(one * array.itemsize for one in step))


def computed(found: StackedProduct, x: Any, y: Any, output: Any) -> Any:
    """Fill the output matrix by matrix, as a library is told of them."""
    output[...] = np.nan
    sizes = ((found.rows, found.depth), (found.depth, found.columns), (found.rows, found.columns))
    for starts in found.starts:
        for place in range(found.count):
            parts = [
                matrix(array, lies, start + place * lies.stride, size)
                for array, lies, start, size in zip((x, y, output), found.arrays, starts, sizes, strict=True)
            ]
            np.matmul(parts[0], parts[1], out=parts[2])
    return output


WIDE = numbers(6, 9)
CASES: dict[str, tuple[Any, Any, Any, int, int]] = {
    # Factors, output, then how many matrices are computed at once and how many times.
    "two matrices": (numbers(3, 4), numbers(4, 5), np.empty((3, 5)), 1, 1),
    "columns one after the other": (turned(numbers(3, 4)), turned(numbers(4, 5)), turned(np.empty((3, 5))), 1, 1),
    "parts of wider matrices": (WIDE[:3, :4], WIDE[2:6, 3:8], np.empty((3, 9))[:, :5], 1, 1),
    "rows of many matrices by one": (numbers(7, 3, 4), numbers(4, 5), np.empty((7, 3, 5)), 1, 1),
    "one row of many matrices by one": (numbers(7, 1, 4), numbers(4, 5), np.empty((7, 1, 5)), 1, 1),
    "rows of two dims by one": (numbers(2, 7, 3, 4), numbers(1, 4, 5), np.empty((2, 7, 3, 5)), 1, 1),
    "a stack": (numbers(7, 3, 4), numbers(7, 4, 5), np.empty((7, 3, 5)), 7, 1),
    "a stack of turned ones": (turned(numbers(7, 3, 4)), turned(numbers(7, 4, 5)), np.empty((7, 3, 5)), 7, 1),
    "two dims that follow each other": (numbers(2, 7, 3, 4), numbers(2, 7, 4, 5), np.empty((2, 7, 3, 5)), 14, 1),
    "two dims that do not": (numbers(7, 2, 3, 4).swapaxes(0, 1), numbers(2, 7, 4, 5), np.empty((2, 7, 3, 5)), 7, 2),
    "one matrix by many": (numbers(3, 4), numbers(7, 4, 5), np.empty((7, 3, 5)), 7, 1),
    "dims that spread": (numbers(2, 1, 3, 4), numbers(7, 4, 5), np.empty((2, 7, 3, 5)), 7, 2),
    "turned rows by one": (turned(numbers(7, 3, 4)), numbers(4, 5), np.empty((7, 3, 5)), 7, 1),
    "rows of many matrices by a turned one": (numbers(7, 3, 4), turned(numbers(4, 5)), np.empty((7, 3, 5)), 1, 1),
    "columns of many matrices side by side": (
        numbers(4, 7, 3).transpose(1, 2, 0),
        numbers(4, 5),
        np.empty((7, 3, 5)),
        7,
        1,
    ),
    "some rows of many matrices by one": (numbers(7, 6, 4)[:, :3], numbers(4, 5), np.empty((7, 3, 5)), 7, 1),
    "some rows of many outputs": (numbers(7, 3, 4), numbers(4, 5), np.empty((7, 6, 5))[:, :3], 7, 1),
    "a column of many outputs": (numbers(7, 3, 4), numbers(4, 1), np.empty((7, 3, 2))[..., ::2], 1, 1),
    "one row of many wider matrices by one": (numbers(7, 1, 8)[..., :4], numbers(4, 5), np.empty((7, 1, 5)), 1, 1),
    "rows of many wider matrices by one": (numbers(7, 3, 8)[..., :4], numbers(4, 5), np.empty((7, 3, 5)), 1, 1),
    "two rows of a wider matrix": (numbers(2, 9)[:, :4], numbers(4, 5), np.empty((2, 7))[:, :5], 1, 1),
    "one matrix that is seen as many": (
        np.broadcast_to(numbers(3, 4), (7, 3, 4)),
        numbers(7, 4, 5),
        np.empty((7, 3, 5)),
        7,
        1,
    ),
    "three dims of which two follow": (
        numbers(3, 4, 7, 3, 4)[:, :2],
        numbers(3, 2, 7, 4, 5),
        np.empty((3, 2, 7, 3, 5)),
        14,
        3,
    ),
    "a column of every second number": (numbers(3, 4), numbers(4, 1), np.empty((3, 2))[:, ::2], 1, 1),
    "two columns of a wider matrix": (numbers(2, 5).T[:3], numbers(2, 5), np.empty((3, 5)), 1, 1),
    "a row of its own": (np.arange(4.0)[None], numbers(4, 5), np.empty((1, 5)), 1, 1),
    "two rows of many matrices by one": (numbers(7, 2, 4), numbers(4, 5), np.empty((7, 2, 5)), 1, 1),
    "every second number of many rows": (numbers(7, 1, 8)[..., ::2], numbers(4, 5), np.empty((7, 1, 5)), 7, 1),
    "a dim of one between two": (numbers(2, 1, 7, 3, 4), numbers(2, 1, 7, 4, 5), np.empty((2, 1, 7, 3, 5)), 14, 1),
    "every second number of a row": (numbers(1, 8)[:, ::2], numbers(4, 5), np.empty((1, 5)), 1, 1),
    "one column": (numbers(3, 1), numbers(1, 5), np.empty((3, 5)), 1, 1),
    "a number": (numbers(1, 1), numbers(1, 1), np.empty((1, 1)), 1, 1),
    "a column of the output": (numbers(3, 4), numbers(4, 1), np.empty((3, 6))[:, 2:3], 1, 1),
}


@pytest.mark.parametrize("case", CASES)
def test_the_product_of_the_stacks_is_that_of_the_whole(case: str) -> None:
    x, y, output, count, times = CASES[case]
    found = stacked(x, y, [output])
    assert found is not None
    assert (found.count, len(found.starts)) == (count, times)
    np.testing.assert_array_equal(computed(found, x, y, output), x @ y)


@pytest.mark.parametrize(
    ("x", "y", "output"),
    [
        (numbers(3, 8)[:, ::2], numbers(4, 5), np.empty((3, 5))),
        (numbers(3, 4), numbers(8, 10)[::2, ::2], np.empty((3, 5))),
        (numbers(3, 4), numbers(4, 5), np.empty((6, 10))[::2, ::2]),
        (numbers(3, 4)[::-1], numbers(4, 5), np.empty((3, 5))),
        (numbers(7, 3, 4)[::-1], numbers(7, 4, 5), np.empty((7, 3, 5))),
        (numbers(3, 4)[:, ::2], numbers(2, 5), np.empty((3, 5))),
        (np.lib.stride_tricks.as_strided(numbers(60), (7, 3, 4), (48, 16, 8)), numbers(4, 5), np.empty((7, 3, 5))),
        (np.broadcast_to(numbers(9)[::3], (2, 3)), numbers(3, 5), np.empty((2, 5))),
        (numbers(3, 4)[:0], numbers(4, 5), np.empty((3, 5))[:0]),
        (numbers(3, 4)[:, :0], numbers(4, 5)[:0], np.empty((3, 5))),
        (np.broadcast_to(numbers(4), (3, 4)), numbers(4, 5), np.empty((3, 5))),
        (np.zeros((3, 4), "f8,i1")["f0"], numbers(4, 5), np.empty((3, 5))),
    ],
    ids=[
        "x",
        "y",
        "output",
        "backwards",
        "a stack backwards",
        "two columns",
        "rows that overlap",
        "one row with gaps for all",
        "no row",
        "no depth",
        "one row for all",
        "beside another field",
    ],
)
def test_what_has_no_dim_of_neighbours_or_no_elements_is_not_taken(x: Any, y: Any, output: Any) -> None:
    assert stacked(x, y, [output]) is None


def test_arrays_beside_the_output_have_their_places_too() -> None:
    x, y, output, beside = numbers(7, 3, 4), numbers(7, 4, 5), np.empty((7, 3, 5)), np.empty((7, 3, 8))[..., :5]
    found = stacked(x, y, [output, beside])
    assert found is not None
    assert found.arrays == (
        Matrices(False, 4, 12),
        Matrices(False, 5, 20),
        Matrices(False, 5, 15),
        Matrices(False, 8, 24),
    )
    assert found.starts == ((0, 0, 0, 0),)
