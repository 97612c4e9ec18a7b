"""In which type of floats operators compute: one for what a network is given, or one by the name of the operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import Parameter, Tensor, ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.execution.guard import only_if
from mpiparallel.graph.input_conversion import converting
from mpiparallel.graph.precision import OneType, Precision, TypeByOperator, cast_float, cast_floats
from mpiparallel.graph.trace import Trace, recording

HALF, SINGLE, DOUBLE = (np.dtype(one) for one in (np.float16, np.float32, np.float64))
BY_NAME = TypeByOperator(HALF, frozenset({"MatMul"}), frozenset({"Exp"}), frozenset({"Add"}))


def weight(dtype: Any = SINGLE) -> Parameter:
    return Parameter(np.ones((2, 2), dtype), "weight")


def dtypes_of(precision: Precision, make: Callable[[Tensor], Any], dtype: Any = SINGLE) -> list[tuple[str, ...]]:
    """Return of each node that is no cast its operator, and the types of its inputs and outputs."""
    trace = Trace()
    x = Tensor.of_value(trace.graph.add_input("x", TensorSpec((2, 2), np.dtype(dtype))))
    with recording(trace), converting(precision):
        make(x)
    return [
        (node.operator.name, *(one.spec.dtype.name for one in (*node.inputs, *node.outputs)))
        for node in trace.graph.nodes
        if node.operator.name != "Cast"
    ]


@pytest.mark.parametrize(
    ("make", "dtype", "nodes"),
    [
        # Parameters and constants are given; what comes in is computed, as far as the network knows.
        (lambda x: ops.matmul(x, weight()), HALF, [("MatMul", "float16", "float16", "float16")]),
        (lambda x: x + Tensor(np.ones(2, np.float64)), HALF, [("Add", "float16", "float16", "float16")]),
        (lambda x: ops.exp(x), SINGLE, [("Exp", "float32", "float32")]),
        (lambda x: x + weight(), DOUBLE, [("Add", "float64", "float16", "float64")]),
        (lambda x: ops.gather(weight(), Tensor(np.ones(2, np.int32)), 0), HALF, [("Gather", "float16", "int32")]),
    ],
)
def test_of_one_type_is_what_is_given_and_not_what_is_computed(
    make: Callable[[Tensor], Any], dtype: Any, nodes: list[tuple[str, ...]]
) -> None:
    found = dtypes_of(OneType(HALF), make, dtype)
    assert [one[: len(other)] for one, other in zip(found, nodes, strict=True)] == nodes


@pytest.mark.parametrize(
    ("precision", "make", "dtype", "nodes"),
    [
        (BY_NAME, lambda x: ops.matmul(x, x), SINGLE, [("MatMul", "float16", "float16", "float16")]),
        (BY_NAME, lambda x: ops.exp(x), HALF, [("Exp", "float32", "float32")]),
        (BY_NAME, lambda x: ops.exp(x), DOUBLE, [("Exp", "float64", "float64")]),
        (BY_NAME, lambda x: x + weight(), HALF, [("Add", "float32", "float32", "float32")]),
        (BY_NAME, lambda x: x + weight(HALF), DOUBLE, [("Add", "float64", "float64", "float64")]),
        (BY_NAME, lambda x: x * weight(HALF), DOUBLE, [("Mul", "float64", "float16", "float64")]),
        (BY_NAME, lambda x: ops.sin(x), HALF, [("Sin", "float16", "float16")]),
        (
            TypeByOperator(HALF, frozenset({"MatMul"}), gives_wide=True),
            lambda x: ops.sin(ops.matmul(x, x)),
            SINGLE,
            [("MatMul", "float16", "float16", "float16"), ("Sin", "float32", "float32")],
        ),
        (
            TypeByOperator(HALF, frozenset({"MatMul"}), gives_wide=True),
            lambda x: ops.exp(ops.sin(x)),
            HALF,
            [("Sin", "float16", "float16"), ("Exp", "float16", "float16")],
        ),
    ],
)
def test_by_its_name_an_operator_computes_in_16_bits_in_32_at_least_or_in_the_widest_of_its_inputs(
    precision: Precision, make: Callable[[Tensor], Any], dtype: Any, nodes: list[tuple[str, ...]]
) -> None:
    assert dtypes_of(precision, make, dtype) == nodes


def casts(make: Callable[[Tensor], Any]) -> int:
    trace = Trace()
    x = Tensor.of_value(trace.graph.add_input("x", TensorSpec((2, 2), HALF)))
    with recording(trace), converting(OneType(HALF)):
        make(x)
    return sum(node.operator.name == "Cast" for node in trace.graph.nodes)


def under_a_flag(flag: Parameter, given: Parameter) -> Callable[[Tensor], None]:
    def act(x: Tensor) -> None:
        for _ in range(2):
            only_if(flag, lambda: ops.matmul(x, given))

    return act


def test_a_parameter_is_cast_once_until_it_is_overwritten_and_anew_under_each_flag() -> None:
    one, flag = weight(), Parameter(np.ones((), np.int32), "flag")
    assert casts(lambda x: ops.matmul(ops.matmul(x, one), one)) == 1
    assert casts(lambda x: (ops.matmul(x, one), ops.Assign()(one, one), ops.matmul(x, one))) == 2
    assert casts(under_a_flag(flag, one)) == 2
    assert casts(lambda x: ops.matmul(x, weight(HALF))) == 0
    constant = Tensor(np.ones((2, 2), np.float32))
    assert casts(lambda x: ops.matmul(ops.matmul(x, constant), constant)) == 2


def test_computed_at_once_only_parameters_are_known_to_be_given() -> None:
    x = Tensor(np.ones((2, 2), np.float32))
    with converting(OneType(HALF)):
        assert ops.exp(weight()).dtype == HALF
        assert ops.exp(x).dtype == SINGLE
    with converting(BY_NAME):
        assert ops.matmul(x, weight()).dtype == HALF
    assert ops.exp(weight()).dtype == SINGLE


def test_floats_in_a_tree_are_cast_and_all_else_is_as_it_is() -> None:
    x, counts, name = Tensor(np.ones(2, np.float32)), Tensor(np.ones(2, np.int32)), "name"
    found = cast_floats((x, [counts, name], (x,)), HALF)
    assert [type(one) for one in found[1:]] == [list, tuple]
    assert (found[0].dtype, found[2][0].dtype) == (HALF, HALF)
    assert found[1][0] is counts
    assert found[1][1] is name
    assert cast_floats([x], None)[0] is x
    assert cast_float(x, SINGLE) is x
    assert cast_float(2.5, HALF) == 2.5


@pytest.mark.parametrize(
    ("source", "target", "has_one"),
    [(SINGLE, HALF, True), (HALF, DOUBLE, True), (SINGLE, np.int32, False), (np.int32, SINGLE, False)],
)
def test_a_cast_between_floats_has_a_gradient_of_the_type_of_what_is_cast(
    source: Any, target: Any, has_one: bool
) -> None:
    x, slope = Tensor(np.ones(2, source)), Tensor(np.full(2, 3.0, np.float32))
    (found,) = ops.Cast().configured(dtype=np.dtype(target)).gradient([x], [x.astype(target)], [slope])
    assert (found is not None) == has_one
    if found is not None:
        assert (found.dtype, found.tolist()) == (np.dtype(source), [3.0, 3.0])
