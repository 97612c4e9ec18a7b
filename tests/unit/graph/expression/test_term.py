"""Terms: their shapes and dtypes, the order in which they are found, and which of them one kernel computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel.dtype import bfloat16
from mpiparallel.graph.expression.kernel import is_computable
from mpiparallel.graph.expression.row_domain import RowDomain
from mpiparallel.graph.expression.term import (
    Term,
    call,
    domain,
    inner_reductions,
    operand,
    reduce,
    uncast,
    walk,
    widened,
)

SINGLE, DOUBLE, HALF = (np.dtype(one) for one in (np.float32, np.float64, np.float16))


def x(*shape: int, dtype: Any = SINGLE, place: int = 0) -> Term:
    return operand(place, shape, np.dtype(dtype))


def total(term: Term, *dims: int) -> Term:
    return reduce("sum", term, dims)


GIVEN = x(4, 6)
TRUTHS = x(4, 6, dtype=np.bool_)
SUMS = total(GIVEN, 1)


@pytest.mark.parametrize(
    ("make", "shape", "dtype"),
    [
        (lambda: GIVEN + 1.5, (4, 6), SINGLE),
        (lambda: 2 - x(6), (6,), SINGLE),
        (lambda: x(4, 1) * x(6), (4, 6), SINGLE),
        (lambda: x(4, 1) / x(1, 6), (4, 6), SINGLE),
        (lambda: x() * x(3), (3,), SINGLE),
        (lambda: x() + x(), (), SINGLE),
        (lambda: x(1) + x(1, 1), (1, 1), SINGLE),
        (lambda: GIVEN + x(6, dtype=DOUBLE), (4, 6), DOUBLE),
        (lambda: GIVEN - x(6, dtype=HALF), (4, 6), SINGLE),
        (lambda: x(2, dtype=np.int32) * x(2, dtype=np.int64), (2,), np.int64),
        (lambda: -x(2, dtype=np.int8), (2,), np.int8),
        (lambda: call("greater", GIVEN, 0.0), (4, 6), np.bool_),
        (lambda: call("where", TRUTHS, GIVEN, 0.0), (4, 6), SINGLE),
        (lambda: call("where", x(4, 1, dtype=np.bool_), 1.0, x(6, dtype=DOUBLE)), (4, 6), DOUBLE),
        (lambda: call("logical_not", TRUTHS), (4, 6), np.bool_),
        (lambda: SUMS, (4, 1), SINGLE),
        (lambda: total(GIVEN, 0, -1), (1, 1), SINGLE),
        (lambda: reduce("max", x(2, 3, 4, dtype=DOUBLE), [-2]), (2, 1, 4), DOUBLE),
        (lambda: GIVEN.astype(HALF), (4, 6), HALF),
        (lambda: GIVEN.reshape((4, 1, 6)), (4, 1, 6), SINGLE),
        (lambda: GIVEN.astype(DOUBLE).reshape((1, 4, 6)), (1, 4, 6), DOUBLE),
        (lambda: widened(x(2, dtype=HALF)), (2,), SINGLE),
        (lambda: widened(x(2, dtype=bfloat16)), (2,), SINGLE),
        (lambda: widened(x(2, dtype=DOUBLE)), (2,), DOUBLE),
        (lambda: widened(x(2, dtype=np.int16)), (2,), np.int16),
    ],
)
def test_a_term_has_the_shape_and_dtype_of_an_array(
    make: Callable[[], Term], shape: tuple[int, ...], dtype: Any
) -> None:
    term = make()
    assert (term.shape, term.dtype) == (shape, np.dtype(dtype))


@pytest.mark.parametrize(
    ("make", "function", "operands"),
    [
        (lambda: GIVEN + 2.0, "add", (None, 2.0)),
        (lambda: 2.0 + GIVEN, "add", (2.0, None)),
        (lambda: GIVEN - 2.0, "subtract", (None, 2.0)),
        (lambda: 2.0 - GIVEN, "subtract", (2.0, None)),
        (lambda: GIVEN * 2.0, "multiply", (None, 2.0)),
        (lambda: 2.0 * GIVEN, "multiply", (2.0, None)),
        (lambda: GIVEN / 2.0, "true_divide", (None, 2.0)),
        (lambda: 2.0 / GIVEN, "true_divide", (2.0, None)),
        (lambda: -GIVEN, "negative", (None,)),
    ],
)
def test_signs_are_functions_of_terms_and_numbers_in_their_order(
    make: Callable[[], Term], function: str, operands: tuple[float | None, ...]
) -> None:
    term = make()
    assert term.function == function
    assert tuple(None if one is GIVEN else one.number for one in term.operands) == operands
    assert all(one is GIVEN or (one.dtype, one.shape, one.is_leaf) == (SINGLE, (), True) for one in term.operands)


def test_a_cast_to_the_same_dtype_is_nothing_and_is_seen_through() -> None:
    assert GIVEN.astype(np.float32) is GIVEN
    twice = GIVEN.astype(DOUBLE).astype(HALF)
    assert uncast(twice) is GIVEN
    assert uncast(GIVEN) is GIVEN
    assert (GIVEN.is_leaf, twice.is_leaf) == (True, False)
    turned = GIVEN.astype(DOUBLE).reshape((4, 6, 1))
    assert (turned.function, turned.operands[0].function, turned.operands[0].shape) == ("cast", "input", (4, 6, 1))


def test_terms_are_found_once_each_after_its_operands_and_not_behind_those_that_are_known() -> None:
    middle = GIVEN * 2.0
    root = call("sin", middle) + call("cos", middle)
    found = walk([root, middle])
    assert len(found) == len({*found}) == 6
    assert found[-1] is root
    places = {term: place for place, term in enumerate(found)}
    assert all(places[one] < places[term] for term in found for one in term.operands)
    assert [one.function for one in walk([root], {middle})] == ["multiply", "sin", "cos", "add"]


@pytest.mark.parametrize(
    ("make", "inner"),
    [
        (lambda: [SUMS], []),
        (lambda: [SUMS.astype(DOUBLE)], []),
        (lambda: [GIVEN - SUMS], [SUMS]),
        (lambda: [GIVEN - SUMS, SUMS], [SUMS]),
        (lambda: [SUMS, SUMS * 2.0], [SUMS]),
        (lambda: [SUMS, GIVEN * 2.0], []),
    ],
)
def test_a_sum_is_inner_where_something_is_computed_from_it(make: Callable[[], list[Term]], inner: list[Term]) -> None:
    roots = make()
    assert inner_reductions(roots) == inner
    assert domain(roots) == (4, 6)


def test_a_largest_is_inner_always() -> None:
    largest = reduce("max", GIVEN, [1])
    assert inner_reductions([largest]) == [largest]
    assert inner_reductions([GIVEN]) == []


@pytest.mark.parametrize(
    ("make", "computable"),
    [
        (lambda: [GIVEN * 2.0, x(6) * 2.0], True),
        (lambda: [GIVEN - SUMS, total(GIVEN, 0)], True),
        (lambda: [GIVEN - SUMS, GIVEN - reduce("max", GIVEN, [1])], True),
        (lambda: [GIVEN - SUMS, GIVEN - total(GIVEN, 0)], False),
        (lambda: [GIVEN - total(x(1, 6), 1)], False),
        (lambda: [x(3, 4, 6) - SUMS], False),
        (lambda: [x(3, 4, 6) - total(x(3, 4, 6), 2)], True),
    ],
)
def test_one_kernel_reduces_over_one_set_of_dims_of_all_its_elements(
    make: Callable[[], list[Term]], computable: bool
) -> None:
    assert is_computable(make()) == computable


def test_dims_of_rows_are_last_and_what_lacks_them_has_one_element_a_row() -> None:
    given = x(4, 5, 6)
    rows = RowDomain([given - total(given, 1)])
    assert (rows.shape, rows.row_dims, rows.ordered_shape) == ((4, 5, 6), (1,), (4, 6, 5))
    assert rows.aligned(np.zeros((4, 5, 6))).shape == (4, 6, 5)
    assert rows.aligned(np.zeros((5, 1))).shape == (1, 1, 5)
    terms = {x(4, 1, 6): True, x(6): True, x(): True, x(5, 6): False, x(1, 6): True, x(5, 1): False, given: False}
    assert [rows.is_row(term) for term in terms] == [*terms.values()]
    assert rows.row_terms(terms) == {term for term, is_row in terms.items() if is_row}
    chosen = RowDomain([given * 2.0], (0, 2))
    assert (chosen.ordered_shape, chosen.is_row(x(5, 1)), RowDomain([given]).is_row(x())) == ((5, 4, 6), True, False)
