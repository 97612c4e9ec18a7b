"""Element-wise operators made of rows: their options, the types that they take and give, and their terms."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor
from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.dtype import bfloat16
from mpiparallel.errors import ShapeError
from mpiparallel.graph.elementwise import Binary, Unary, operator_of, promote
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression.function import Function
from mpiparallel.graph.expression.term import operand
from mpiparallel.ops import operations as P

EXAMPLE = ((1.0,), (2.0,))
SLOPE = Function(
    "ScaleGrad", "the slope", terms=lambda dy, x: dy * x, arguments=("dy", "x"), example=(*EXAMPLE, (2.0,))
)


def scaled(**changes: Any) -> Function:
    """Return a row of ``x * factor + shift``."""
    given: dict[str, Any] = {
        "terms": lambda x, factor, shift: x * factor + shift,
        "options": {"factor": 2.0, "shift": 0.5},
        "arguments": ("x",),
        "example": EXAMPLE,
    }
    return Function("Scale", "each element, scaled", **(given | changes))


def test_options_are_arguments_of_an_operator_by_place_or_by_name() -> None:
    kind: Any = operator_of(scaled(), __name__)
    assert (kind.__name__, kind.__module__, issubclass(kind, Unary)) == ("Scale", __name__, True)
    assert str(inspect.signature(kind)) == "(factor=2.0, shift=0.5)"
    made = [kind(), kind(3.0), kind(shift=1.0), kind(3.0, 1.0)]
    assert [one.options for one in made] == [
        {"factor": factor, "shift": shift} for factor, shift in ((2.0, 0.5), (3.0, 0.5), (2.0, 1.0), (3.0, 1.0))
    ]
    assert [one(np.array([2.0])).tolist() for one in made] == [[4.5], [6.5], [5.0], [7.0]]
    for wrong in (lambda: kind(1, 2, 3), lambda: kind(other=1)):
        with pytest.raises(TypeError):
            wrong()


def test_the_slope_is_that_of_the_row_or_nothing() -> None:
    x, dy = Tensor(np.array([2.0, 3.0])), Tensor(np.array([5.0, 7.0]))
    ways: list[tuple[dict[str, Any], Any]] = [
        ({}, None),
        ({"gradient": SLOPE, "options": {}}, [10.0, 21.0]),
        ({"derivative": lambda dy, y, x, factor, shift: dy * y + factor}, [27.0, 44.0]),
    ]
    for changes, wanted in ways:
        made = operator_of(scaled(**changes), __name__)()
        (found,) = made.gradient([x], [Tensor(np.array([5.0, 6.0]))], [dy])
        assert (None if found is None else found.tolist()) == wanted


def test_two_inputs_are_called_by_two_arguments_and_their_slopes_are_summed_to_their_shapes() -> None:
    row = Function(
        "Both",
        "both",
        terms=lambda a, b: a * b,
        derivative=lambda dy, y, a, b: (dy * b, dy * a),
        arguments=("a", "b"),
        example=(*EXAMPLE, (2.0,)),
    )
    made = operator_of(row, __name__)()
    assert isinstance(made, Binary)
    a, b = Tensor(np.ones((2, 3))), Tensor(np.array([1.0, 2.0, 3.0]))
    found = made.gradient([a, b], [a], [a])
    assert [None if one is None else one.tolist() for one in found] == [[[1.0, 2.0, 3.0]] * 2, [2.0, 2.0, 2.0]]
    assert made.reuses == (0, 1)


@pytest.mark.parametrize(
    ("operator", "reuses"),
    [(P.Exp(), (0,)), (P.Add(), (0, 1)), (P.Less(), ()), (P.LogicalAnd(), (0, 1)), (P.LogicalNot(), (0,))],
)
def test_a_result_may_take_the_memory_of_inputs_but_that_of_a_comparison(operator: Any, reuses: Any) -> None:
    assert operator.reuses == reuses


@pytest.mark.parametrize(
    ("dtypes", "common"),
    [
        ((np.int64, np.float32), np.float32),
        ((np.float16, np.int64), np.float16),
        ((np.int8, np.int16), np.int16),
        ((np.bool_, np.int8), np.int8),
        ((np.bool_,), np.bool_),
        ((np.float16, np.float64), np.float64),
        ((np.int64, np.complex64), np.complex64),
        ((np.float16, bfloat16), np.float32),
        ((bfloat16, np.int32), bfloat16),
    ],
)
def test_integers_take_the_type_of_the_floats_beside_them(dtypes: tuple[Any, ...], common: Any) -> None:
    assert promote(*map(np.dtype, dtypes)) == np.dtype(common)


@pytest.mark.parametrize(
    ("operator", "dtypes", "gives"),
    [
        (P.Add(), (np.int32, np.int64), np.int64),
        (P.Div(), (np.int32, np.int64), np.float32),
        (P.Div(), (np.int32, np.float64), np.float64),
        (P.Div(), (np.complex64, np.float32), np.complex64),
        (P.Sqrt(), (np.int8,), np.float32),
        (P.Sqrt(), (np.float16,), np.float16),
        (P.Less(), (np.float64, np.float32), np.bool_),
        (P.LogicalAnd(), (np.bool_, np.bool_), np.bool_),
    ],
)
def test_the_type_of_a_result_is_that_of_the_inputs_of_floats_or_bool(
    operator: Any, dtypes: tuple[Any, ...], gives: Any
) -> None:
    assert operator.result_dtype(*map(np.dtype, dtypes)) == np.dtype(gives)
    assert operator(*(np.ones(2, dtype) for dtype in dtypes)).dtype == np.dtype(gives)


@pytest.mark.parametrize(
    ("operator", "dtypes", "has_terms"),
    [
        (P.Exp, (np.float32,), True),
        (P.Exp, (np.int32,), False),
        (P.Exp, (np.bool_,), False),
        (P.Add, (np.float32, np.float32), True),
        (P.Add, (np.float32, np.bool_), True),
        (P.Add, (np.float32, np.int32), False),
        (P.Add, (np.float64, np.int32), False),
        (P.Add, (np.bool_, np.bool_), False),
        (P.Add, (np.int32, np.int32), False),
        (P.Add, (np.complex64, np.complex64), False),
        (P.Less, (np.int32, np.int64), True),
        (P.Less, (np.int32, np.float32), False),
        (P.Less, (np.complex64, np.complex64), False),
        (P.LogicalAnd, (np.bool_, np.bool_), True),
        (P.Sigmoid, (np.float32,), True),
        (P.Reciprocal, (np.int32,), True),
        (P.Abs, (np.complex64,), False),
    ],
)
def test_terms_stand_for_functions_of_floats_comparisons_of_one_kind_and_truths(
    operator: Callable[[], Any], dtypes: tuple[Any, ...], has_terms: bool
) -> None:
    made = operator()
    terms = made.expression(*(operand(place, (2,), np.dtype(dtype)) for place, dtype in enumerate(dtypes)))
    assert (terms is not None) == has_terms
    if terms is not None:
        assert terms[0].dtype == made.result_dtype(*map(np.dtype, dtypes))


@pytest.mark.parametrize(
    ("operator", "given", "wanted"),
    [
        (P.Sqrt, [np.array([4, 9])], [2.0, 3.0]),
        (P.Div, [np.array([1, 3]), np.array([2, 2])], [0.5, 1.5]),
        (P.Reciprocal, [np.array([2, 4])], [0.5, 0.25]),
        (P.Add, [np.array([1, 2]), np.array([3, 4])], [4, 6]),
        (P.Equal, [np.array([1, 2]), np.array([1, 3])], [True, False]),
        (P.Maximum, [np.array([1, 5]), np.array([4, 2])], [4, 5]),
        (P.Exp, [np.array([0, 0])], [1.0, 1.0]),
    ],
)
def test_integers_are_computed_with_too(operator: Callable[[], Any], given: list[Any], wanted: list[Any]) -> None:
    assert operator()(*given).tolist() == wanted


def test_small_integers_are_computed_with_as_float32() -> None:
    found = P.Sqrt()(np.array([2, 3], np.int8)).asnumpy()
    np.testing.assert_array_equal(found, np.sqrt(np.float32([2, 3])))


class Compiling(NumpyBackend):
    """It counts the kernels that it is asked to bind."""

    def __init__(self) -> None:
        self.count = 0
        self.kernels: Any = SimpleNamespace(bind=self.bind)

    def bind(self, *_given: Any) -> Callable[[], None]:
        self.count += 1
        return lambda: None


@pytest.mark.parametrize(
    ("operator", "dtypes", "count"),
    [(P.Exp, (np.float32,), 1), (P.Sqrt, (np.int32,), 0), (P.Less, (np.int32, np.int32), 1), (P.Erf, (np.float32,), 1)],
)
def test_a_device_that_compiles_texts_does_so_for_what_terms_stand_for(
    operator: Callable[[], Any], dtypes: tuple[Any, ...], count: int
) -> None:
    made, backend = operator(), Compiling()
    inputs = [np.ones(3, dtype) for dtype in dtypes]
    output = np.zeros(3, made.result_dtype(*(one.dtype for one in inputs)))
    made.kernel(Runtime(backend), inputs, [output])()
    assert backend.count == count
    assert output.any() == (count == 0)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: P.Erf()(np.array([1, 2])), "input is of dtype int64; cast it to a floating-point dtype"),
        (lambda: P.Xdivy()(np.array([1]), np.array([2])), "x is of dtype int64; cast it to a floating-point dtype"),
        (
            lambda: P.LogicalOr()(np.array([True]), np.array([1])),
            "other is of dtype int64; compare it, or cast it to bool",
        ),
    ],
)
def test_an_input_that_is_refused_is_named(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(ShapeError) as caught:
        call()
    assert said in str(caught.value)


def test_integers_beside_floats_are_taken_where_floats_are_asked_for() -> None:
    assert P.Xdivy()(np.array([1.0]), np.array([2])).tolist() == [0.5]
