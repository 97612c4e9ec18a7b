"""Tracing: what a graph holds, and what cannot be traced."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel.ops as ops
from mpiparallel import context, nn
from mpiparallel.errors import ConfigurationError, GradientError, ShapeError, TraceError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording


class Branching(nn.Cell):
    def construct(self, x):
        if x.sum() > 0:
            return x
        return -x


class Floating(nn.Cell):
    def construct(self, x):
        return x * float(x.sum())


class Rounding(nn.Cell):
    def construct(self, x):
        return x * int(x.sum())


class Peeking(nn.Cell):
    def construct(self, x):
        return Tensor(x.asnumpy())


@pytest.mark.parametrize(
    ("cell", "use"),
    [
        (Branching, "branches on the values"),
        (Floating, r"takes float\(\)"),
        (Rounding, r"takes int\(\)"),
        (Peeking, "takes the values"),
    ],
)
def test_data_dependent_python_is_refused_with_file_line_and_mend(cell, use) -> None:
    with pytest.raises(TraceError, match=rf"test_trace.py:\d+: construct {use}.*ops.select.*PYNATIVE_MODE"):
        cell()(Tensor([1.0]))


def test_pynative_mode_runs_what_cannot_be_traced() -> None:
    context.set_context(mode=context.PYNATIVE_MODE)
    try:
        assert Branching()(Tensor([-3.0])).asnumpy().tolist() == [3.0]
    finally:
        context.set_context(mode=context.GRAPH_MODE)


class Scaled(nn.Cell):
    def __init__(self):
        super().__init__()
        self.scale = Parameter(np.float32(3.0), "scale")

    def construct(self, x, y):
        return x * self.scale, (y.sum(), x - y)


def test_graph_and_pynative_mode_return_the_same_structure_and_values() -> None:
    x, y = Tensor([1.0, 2.0]), Tensor([5.0, 7.0])
    traced = Scaled()(x, y)
    context.set_context(mode=context.PYNATIVE_MODE)
    try:
        direct = Scaled()(x, y)
    finally:
        context.set_context(mode=context.GRAPH_MODE)
    for one, other in ((traced[0], direct[0]), (traced[1][0], direct[1][0]), (traced[1][1], direct[1][1])):
        np.testing.assert_array_equal(one.asnumpy(), other.asnumpy())


def test_a_shape_error_names_the_users_line_the_operator_and_both_shapes() -> None:
    class Wrong(nn.Cell):
        def construct(self, x):
            return ops.matmul(x, x)

    message = r"test_trace.py:\d+: MatMul: x \(2, 3\) and y \(2, 3\).*contract 3 elements with 2"
    with pytest.raises(ShapeError, match=message):
        Wrong()(Tensor(np.zeros((2, 3))))


def test_two_parameters_of_one_name_are_refused() -> None:
    class Twins(nn.Cell):
        def __init__(self):
            super().__init__(auto_prefix=False)
            self.a, self.b = Parameter(1.0, "same"), Parameter(2.0, "same")

        def construct(self, x):
            return x * self.a + self.b

    with pytest.raises(TraceError, match="two parameters are named 'same'"):
        Twins()(Tensor([1.0]))


def test_a_cell_is_compiled_once_for_each_shape() -> None:
    calls = []

    class Counting(nn.Cell):
        def construct(self, x):
            calls.append(x.shape)
            return x + 1

    cell = Counting()
    for shape in ((2,), (2,), (3,), (2,)):
        cell(Tensor(np.zeros(shape, np.float32)))
    assert calls == [(2,), (3,)]


def test_a_returned_tensor_keeps_its_values_after_the_next_call() -> None:
    cell = nn.ReLU()
    first = cell(Tensor([1.0, -1.0]))
    cell(Tensor([5.0, 6.0]))
    assert first.asnumpy().tolist() == [1.0, 0.0]


def test_setting_an_attribute_before_init_is_refused() -> None:
    class Early(nn.Cell):
        def __init__(self):
            self.x = 1

    with pytest.raises(ConfigurationError, match=r"Early: call super\(\).__init__\(\) before"):
        Early()


def test_gradient_of_an_integer_output_is_refused() -> None:
    with pytest.raises(GradientError, match="int64 has no gradient"):
        ops.grad(lambda x: x.sum())(Tensor(np.arange(3)))


def test_a_graph_prints_what_each_node_makes_of_what() -> None:
    trace = Trace()
    x = trace.graph.add_input("x", Tensor(np.ones((2, 3), np.float32)).spec)
    with recording(trace):
        trace.graph.outputs = [ops.exp(Tensor.of_value(x) + Tensor.of_value(x)).value]
    given, total, power, made = str(trace.graph).splitlines()
    assert given.startswith("inputs [x[2, 3]")
    assert total.endswith(" = Add(x, x)")
    # The second takes what the first has made.
    name = total.partition("[")[2].partition("[")[0]
    assert power.endswith(f" = Exp({name})")
    assert made.startswith("outputs [")
