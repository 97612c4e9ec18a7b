"""What cannot be differentiated is refused by its name, and what nothing depends on has gradient zero."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import Tensor, ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.differentiate import differentiate, is_zero
from mpiparallel.errors import GradientError
from mpiparallel.graph.graph import Graph, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.trace import Trace, recording

SPEC = TensorSpec((3,), np.dtype(np.float32))


def constant(array: np.ndarray) -> Tensor:
    return Tensor.of_value(Graph().add_constant(array))


@pytest.mark.parametrize(
    ("array", "zero"),
    [
        (np.zeros(3), True),
        (np.array([0.0, 0.0, 1.0]), False),
        (np.array(0.0), True),
        (np.array(2.0), False),
        # One number in memory stands for all.
        (np.broadcast_to(np.zeros(()), (1 << 20, 1 << 20)), True),
        (np.broadcast_to(np.ones(()), (1 << 20, 1 << 20)), False),
        (np.broadcast_to(np.array([0.0, 1.0]), (2, 2)), False),
        (np.broadcast_to(np.zeros(2), (2, 2)), True),
    ],
)
def test_a_gradient_of_zeros_is_told_by_what_is_in_memory(array: np.ndarray, zero: bool) -> None:
    assert is_zero(constant(array)) is zero


def test_what_is_computed_is_not_known_to_be_zero() -> None:
    assert not is_zero(Tensor.of_value(Value(SPEC, "x")))
    assert not is_zero(Tensor(np.zeros(3)))


class Square(Operator):
    """It has the gradient 2 x, by a sum."""

    def infer(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        return (x,)

    def gradient(self, inputs, outputs, cotangents):
        (x,), (cotangent,) = inputs, cotangents
        return ((x + x) * cotangent,)


@pytest.fixture
def trace() -> Trace:
    return Trace()


def made(trace: Trace, *inputs: Value, operator: Operator | None = None) -> Value:
    with recording(trace):
        return trace.value_of((operator or ops.Mul())(*map(Tensor.of_value, inputs)))


def test_what_is_not_of_floats_is_refused_by_name_and_dtype(trace: Trace) -> None:
    x = trace.graph.add_input("counts", TensorSpec((3,), np.dtype(np.int32)))
    with pytest.raises(GradientError, match=r"^counts of dtype int32 has no gradient; differentiate a float output$"):
        differentiate(trace, [x], [x], [x])


def test_gradients_of_parameters_are_known_as_finished_and_others_are_zero_where_nothing_depends_on_them(
    trace: Trace,
) -> None:
    x, other = (trace.graph.add_input(name, SPEC) for name in ("x", "other"))
    weight = trace.graph.add_parameter(Parameter(np.ones(3, np.float32), "weight"), SPEC)
    y, seed = made(trace, x, weight), trace.graph.add_constant(np.ones(3, np.float32))
    assert not trace.differentiated
    of_x, of_weight, of_other = differentiate(trace, [y], [seed], [x, weight, other])
    assert trace.differentiated
    assert trace.graph.gradients == {of_weight: weight}
    assert of_x.node is not None
    assert of_x.node.notes.origin is y.node
    assert trace.graph.cotangents == {y.node: (seed,)}
    assert of_other.constant is not None
    assert (of_other.spec, of_other.constant.strides, of_other.constant.any()) == (SPEC, (0,), np.False_)


def test_only_what_depends_on_what_is_wanted_is_differentiated(trace: Trace) -> None:
    x, y = (trace.graph.add_input(name, SPEC) for name in "xy")
    first, second = made(trace, x, x), made(trace, y, y)
    total = made(trace, first, second, operator=ops.Add())
    differentiate(trace, [total], [trace.graph.add_constant(np.ones(3, np.float32))], [x])
    assert trace.graph.cotangents.keys() == {total.node, first.node}


class Overwrite(Operator):
    """Sets its first input to the second."""

    updates = (0,)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return ()


def test_a_gradient_that_needs_what_was_overwritten_is_refused_with_the_parameter(trace: Trace) -> None:
    x = trace.graph.add_input("x", SPEC)
    count = trace.graph.add_parameter(Parameter(np.ones(3, np.float32), "count"), SPEC)
    # To overwrite it before it is read is no matter.
    trace.graph.add_node(Overwrite(), "before", [count, x], [])
    y, seed = made(trace, x, count), trace.graph.add_constant(np.ones(3, np.float32))
    assert len(differentiate(trace, [y], [seed], [x])) == 1
    trace.graph.add_node(Overwrite(), "after", [count, x], [])
    with pytest.raises(GradientError) as raised:
        differentiate(trace, [y], [seed], [x])
    assert str(raised.value) == (
        f"{y.node.name}: its gradient depends on what 'count' was when it ran, but that parameter is overwritten after "
        "it; overwrite it after the gradient has been taken"
    )


def test_terms_of_one_value_are_added_in_the_order_of_their_micro_batches(trace: Trace) -> None:
    x = trace.graph.add_input("x", SPEC)
    seed, outputs = trace.graph.add_constant(np.ones(3, np.float32)), []
    for number in (1, 0, 2):
        with trace.of_micro_batch(number):
            outputs.append(made(trace, x, operator=Square()))
    (total,) = differentiate(trace, outputs, [seed] * 3, [x])
    sums = [node for node in trace.graph.nodes if node.notes.like is x]
    assert sums[-1].outputs == (total,)
    of = [[value.node.notes.micro_batch for value in node.inputs] for node in sums]
    assert of == [[0, 1], [1, 2]]
    assert [node.notes.micro_batch for node in sums] == [1, 2]
