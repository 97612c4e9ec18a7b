"""The seconds that no strategy goes below, against sums made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.graph import Graph, Node, Notes, Value
from mpiparallel.graph.parameter import Parameter
from mpiparallel.search.cost.floor import least_seconds, least_seconds_in_stages
from mpiparallel.search.machine.kernel_times import KernelTimes
from mpiparallel.search.machine.machine import Machine

SPEC = TensorSpec((8, 8), np.dtype(np.float32))
PRODUCT, BYTES = 2 * 8**3, 3 * 4 * 64
"""The operations of a product of two matrices, and the bytes of all three."""


def product(graph: Graph, left: Value, right: Value, origin: Node | None = None) -> Value:
    return graph.add_node(ops.MatMul(), "MatMul", [left, right], [SPEC], Notes(origin=origin)).outputs[0]


@pytest.mark.parametrize(
    ("machine", "wanted"),
    [
        (Machine(products=((1e3, 1e6),), memory_bandwidth=1e12, launch=0.25), PRODUCT / 1e6 / 4 + 0.25),
        (
            Machine(products=((1e3, 1e6),), operand_bandwidth=1e3, memory_bandwidth=1e12, launch=0.0),
            PRODUCT / 1e6 / 4 + BYTES / 1e3 / 4,
        ),
        (Machine(products=((1e3, 1e12),), memory_bandwidth=1e3, launch=0.0), BYTES / 1e3 / 4),
        # A part may be as small as the first of these, and then is quicker.
        (Machine(products=((1e2, 4e6), (1e3, 1e6)), memory_bandwidth=1e12, launch=0.0), PRODUCT / 4e6 / 4),
        # A part that is larger is not taken to be.
        (Machine(products=((1e6, 1e6), (1e9, 4e6)), memory_bandwidth=1e12, launch=0.0), PRODUCT / 1e6 / 4),
        (
            Machine(kernels=(KernelTimes("MatMul", call=1.0, operand=2.0, operations=4.0, bytes_read=8.0),)),
            1.0 + 3 * 2.0 + (PRODUCT * 4.0 + BYTES * 2 / 3 * 8.0) / 4,
        ),
    ],
    ids=["operations", "operands", "memory", "quicker-when-small", "slower-when-small", "measured"],
)
def test_a_product_is_dealt_out_evenly_and_each_rank_calls_it(machine: Machine, wanted: float) -> None:
    graph = Graph()
    graph.outputs = [product(graph, *(graph.add_input(name, SPEC) for name in "xy"))]
    assert least_seconds(graph, machine, 4) == pytest.approx(wanted)


def test_of_what_may_become_one_kernel_with_its_neighbours_only_operations_count() -> None:
    graph = Graph()
    graph.outputs = [graph.add_node(ops.ReLU(), "ReLU", [graph.add_input("x", SPEC)], [SPEC]).outputs[0]]
    machine = Machine(operation_rate=1e3, memory_bandwidth=1.0, launch=1.0)
    assert least_seconds(graph, machine, 2) == pytest.approx(64 / 1e3 / 2)
    times = KernelTimes("ReLU", call=1.0, operand=1.0, operations=0.5, bytes_read=1.0, bytes_written=1.0)
    assert least_seconds(graph, Machine(kernels=(times,)), 2) == pytest.approx(64 * 0.5 / 2)


def test_what_shows_memory_and_what_nothing_needs_takes_no_time() -> None:
    graph = Graph()
    x = graph.add_input("x", SPEC)
    product(graph, x, x)
    graph.outputs = [graph.add_node(ops.ExpandDims(), "ExpandDims", [x], [SPEC]).outputs[0]]
    assert least_seconds(graph, Machine(), 1) == 0


def test_in_stages_what_follows_the_gradient_and_what_depends_on_no_input_is_done_once() -> None:
    """Two products are done for each of five micro-batches, one of the weight alone and one after the gradient once."""
    graph = Graph()
    x, weight = graph.add_input("x", SPEC), graph.add_parameter(Parameter(np.ones((8, 8), np.float32), "weight"), SPEC)
    turned = product(graph, weight, weight)
    y = product(graph, x, turned)
    gradient = product(graph, y, turned, y.node)
    graph.outputs = [product(graph, gradient, gradient)]
    machine = Machine(products=((1e3, 1e6),), memory_bandwidth=1e12, launch=0.0)
    wanted = (2 * 5 + 1 + 1) * PRODUCT / 1e6
    # Six ranks in three stages: each product is done by two.
    assert least_seconds_in_stages(graph, machine, 6, 3, 5) == pytest.approx(wanted / 2 / 3)
    assert least_seconds_in_stages(graph, machine, 1, 1, 1) == pytest.approx(4 * PRODUCT / 1e6)
