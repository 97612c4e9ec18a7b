"""Which kernels of graphs are measured, what each costs, and what is told of several by one name."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.cost import ELEMENTWISE, Cost
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.search.machine.fitted_times import MeasuredKernel, fitted_times
from mpiparallel.search.machine.kernel_times import PARTS
from mpiparallel.search.machine.measured_kernels import measured_kernels, node_cost, node_specs
from mpiparallel.search.machine.stopwatch import Stopwatch

FLOAT = np.dtype(np.float32)


@pytest.fixture(autouse=True)
def by_the_array_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled, which takes longer than all else."""
    monkeypatch.setenv("MPIPARALLEL_JIT", "0")


def graph_of(operator: Operator, count: int, *shape: int) -> Graph:
    """An operator on so many matrices of one shape."""
    graph = Graph()
    inputs = [graph.add_input(str(place), TensorSpec(shape, FLOAT)) for place in range(count)]
    graph.outputs = [*graph.add_node(operator, operator.name, inputs, [TensorSpec(shape, FLOAT)]).outputs]
    return graph


class Clock:
    """It ticks by a millisecond each time it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1e-3
        return self.now


@pytest.mark.parametrize(
    ("operator", "count", "shape", "names"),
    [
        # 4,096 numbers are read and as many written: 32 KiB in all.
        (ops.Softmax(), 1, (64, 64), ["Softmax", ELEMENTWISE]),
        (ops.Softmax(), 1, (63, 65), []),
        (ops.ReLU(), 1, (64, 64), ["ReLU", ELEMENTWISE]),
        # Products are measured by themselves.
        (ops.MatMul(), 2, (64, 64), []),
    ],
)
def test_kernels_are_told_by_name_where_one_of_them_is_large(
    operator: Operator, count: int, shape: tuple[int, ...], names: list[str]
) -> None:
    found = measured_kernels([graph_of(operator, count, *shape)], Stopwatch(Clock()))
    assert [one.name for one in found] == sorted(names)
    for one in found:
        assert one.seconds(Cost(64 * 64, 1 << 14, 1 << 14), 2) == pytest.approx(1e-3, rel=1e-3)


def test_a_small_kernel_is_told_beside_a_large_one_of_its_name() -> None:
    graphs = [graph_of(ops.Softmax(), 1, *shape) for shape in ((2, 2), (64, 64))]
    found, others = measured_kernels(graphs, Stopwatch(Clock()))
    assert (others.name, others.call) == (ELEMENTWISE, found.call)
    # By this clock both take as long, so it is their call that takes time.
    assert (found.name, found.call) == ("Softmax", pytest.approx(1e-3, rel=1e-3))
    assert [getattr(found, part) for part in PARTS[1:]] == [0.0] * 6


class Update(Operator):
    """Changes its first input."""

    updates = (0,)

    def cost(self, inputs: object, outputs: object) -> Cost:
        return Cost(7, 100, 100)


def value(*shape: int) -> Value:
    return Value(TensorSpec(shape, FLOAT), "x")


def test_what_members_of_a_kernel_pass_on_is_neither_read_nor_written() -> None:
    x, y = value(4), value(4)
    first, second = Node(ops.ReLU(), "first", (x,), (y,)), Node(ops.Sqrt(), "second", (y,), (value(4),))
    alone = node_cost(second)
    assert alone == second.operator.cost([y.spec], [y.spec])
    joined = node_cost(Node(ops.ReLU(), "both", (x,), second.outputs, members=(first, second)))
    operations = sum(node_cost(one).operations for one in (first, second))
    assert joined == Cost(operations, bytes_read=16, bytes_written=16)
    updates = tuple(Node(Update(), "update", (x,)) for _ in range(3))
    assert node_cost(Node(Update(), "all", (x, y), members=updates)) == Cost(21, bytes_read=32, bytes_written=16)
    assert node_specs(first) == ([x.spec], [y.spec])


def test_a_part_is_told_only_if_it_brings_the_seconds_nearer() -> None:
    """Of three kernels the seconds differ by 0.2 %, which no part is worth; and by as much as their operations."""

    def told(*seconds: float) -> list[float]:
        measured = [MeasuredKernel(Cost(place), 2, one) for place, one in enumerate(seconds, 1)]
        return [getattr(fitted_times("any", measured), part) for part in PARTS]

    call, operand, operations, *rest = told(1.0, 1.002, 1.004)
    assert (call, operand, operations, *rest) == (pytest.approx(1.002, rel=1e-4), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    call, operand, operations, *rest = told(3.0, 5.0, 7.0)
    assert (call, operand, operations, *rest) == (1.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0)


def test_times_are_told_in_six_digits_and_by_their_name() -> None:
    found = fitted_times("MaxPool", [MeasuredKernel(Cost(0), 0, 1.23456789)])
    assert (found.name, found.call) == ("MaxPool", 1.23457)
