"""Which roots one CUDA kernel computes together, along which dims its rows go, and what has a kernel before it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mpiparallel.graph.expression.cuda.domain import apart, row_dims_of, small_terms
from mpiparallel.graph.expression.term import Term, call, operand, reduce

FLOAT = np.dtype(np.float32)
Roots = Callable[[], list[Term]]


def x(*shape: int, place: int = 0) -> Term:
    return operand(place, shape or (8, 4, 6), FLOAT)


def total(term: Term, *dims: int) -> Term:
    return reduce("sum", term, dims)


def softmax(term: Term, dim: int) -> list[Term]:
    powers = call("exp", term - reduce("max", term, [dim]))
    sums = total(powers, dim)
    return [powers / sums, call("log", sums)]


GIVEN = x()


@pytest.mark.parametrize(
    ("roots", "dims"),
    [
        ([GIVEN * 2.0], ()),
        ([total(GIVEN, 2)], (2,)),
        ([total(GIVEN, 1, 2)], (1, 2)),
        ([total(x(8, 4, 2), 2)], (2,)),
        ([total(x(2, 4, 6), 0)], (1, 2)),
        ([total(GIVEN, 0, 1, 2)], (0, 1, 2)),
        # What it keeps, where the last dims are not summed over.
        ([total(GIVEN, 0)], (1, 2)),
        ([total(GIVEN, 0, 1)], (2,)),
        ([total(GIVEN, 1)], (2,)),
        ([total(GIVEN, 0, 2)], (2,)),
        ([GIVEN * 2.0, total(GIVEN, 1, 2)], (1, 2)),
        ([total(x(8, 4, 1), 1)], (1, 2)),
        ([total(x(8, 4, 1), 0)], (1, 2)),
        (softmax(GIVEN, 1), (1,)),
        ([*softmax(GIVEN, 2), total(GIVEN, 0)], (2,)),
        ([total(GIVEN, 2).astype(np.float64)], (2,)),
    ],
)
def test_rows_go_along_the_last_dims_that_the_first_sum_goes_over_or_keeps(
    roots: list[Term], dims: tuple[int, ...]
) -> None:
    assert row_dims_of(roots) == dims


DOUBLE, FLAT = GIVEN * 2.0, x(8, 1, 6)
LAST, FIRST = total(GIVEN, 2), total(DOUBLE, 0)


@pytest.mark.parametrize(
    ("roots", "others"),
    [
        ([GIVEN, DOUBLE], set()),
        ([DOUBLE, x(6, place=1) * 2.0], {1}),
        ([x(6, place=1) * 2.0, DOUBLE], {0}),
        ([DOUBLE, DOUBLE], {1}),
        ([DOUBLE, LAST], set()),
        ([LAST, FIRST], set()),
        ([LAST, LAST.astype(np.float64)], {1}),
        # One goes over the row and others before it, but over one set of those alone.
        ([total(GIVEN, 0), total(DOUBLE, 0)], set()),
        ([total(GIVEN, 0), total(DOUBLE, 1)], {1}),
        ([total(GIVEN, 0), total(DOUBLE, 0, 1)], {1}),
        # A part of a row is none.
        ([total(GIVEN, 1, 2), total(DOUBLE, 2)], {1}),
        ([total(GIVEN, 1, 2), total(DOUBLE, 0, 1, 2)], set()),
        (softmax(GIVEN, 2), set()),
        # A sum over rows of what each row has one of.
        ([*softmax(GIVEN, 2), total(softmax(GIVEN, 2)[1], 0)], set()),
        ([total(x(6, place=1), 0), DOUBLE], {0}),
        ([softmax(GIVEN, 2)[0], x(6, place=1) * 2.0], {1}),
        ([GIVEN - total(GIVEN, 1, 2), total(DOUBLE, 2)], {1}),
        ([FLAT - total(FLAT, 1, 2), total(FLAT * 2.0, 2)], set()),
        ([total(GIVEN, 0), total(DOUBLE, 1), x(6, place=1) * 2.0], {1, 2}),
        ([x(6, place=1) * 2.0, x(8, 1, 1, place=2) * 2.0], {1}),
        # It has one element for several rows.
        ([softmax(GIVEN, 2)[0], x(8, 1, 1, place=1) * 2.0], {1}),
        ([x(8, 1, 6, place=1) * 2.0], set()),
    ],
)
def test_a_kernel_computes_what_has_its_elements_and_sums_over_the_same_dims(
    roots: list[Term], others: set[int]
) -> None:
    assert apart(roots) == others


def chain(term: Term, functions: int) -> Term:
    for _ in range(functions):
        term = call("sin", term)
    return term


@pytest.mark.parametrize(
    ("extents", "functions", "is_worth_it"),
    [
        ((160, 10), 3, True),
        ((160, 10), 2, False),
        ((320, 10), 3, True),
        ((32, 2), 3, True),
        ((150, 10), 3, False),
        ((4, 2), 3, False),
        ((160, 1), 9, False),
    ],
)
def test_what_is_costly_and_has_a_sixteenth_of_the_elements_has_a_kernel_before(
    extents: tuple[int, int], functions: int, is_worth_it: bool
) -> None:
    whole, few = extents
    small = chain(x(few, place=1), functions)
    roots = [x(whole // few, few) * small]
    assert small_terms(roots) == ([small] if is_worth_it else [])
    assert small_terms([roots[0], small]) == ([small] if is_worth_it else [])


def test_only_the_last_of_several_small_terms_is_kept_and_none_with_a_sum_or_of_a_row() -> None:
    small = chain(x(10, place=1), 4)
    last = small.astype(np.float64)
    assert small_terms([x(16, 10) * last]) == [last]
    summed = chain(total(x(16, 10, place=1), 0), 3)
    assert small_terms([x(16, 10) * chain(summed, 3)]) == []
    of_columns, of_rows = chain(x(20, place=1), 4), chain(x(64, 1, place=1), 4)
    assert small_terms([softmax(x(64, 20), 1)[0] * of_columns]) == [of_columns]
    assert small_terms([softmax(x(64, 20), 1)[0] * of_rows]) == []
