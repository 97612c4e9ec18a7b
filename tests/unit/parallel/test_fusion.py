"""Fusion of collectives, on thread ranks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from mpiparallel.communication.threads import run_world
from mpiparallel.graph.buffer_plan import plan_buffers
from mpiparallel.graph.graph import Graph, Value
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.program import Program
from mpiparallel.graph.runtime import Runtime
from mpiparallel.graph.tensor_spec import TensorSpec
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.ops import Assign, Exp
from mpiparallel.parallel.fusion import fuse_collectives
from mpiparallel.parallel.redistribution import Redistribution, redistribute

DEVICES = DeviceMatrix((2, 2))
FLOAT = np.dtype(np.float64)


def partial_sum(shape) -> Layout:
    return Layout(shape, DEVICES, ((),) * len(shape), partial=(0,))


def cut_rows(shape) -> Layout:
    return Layout(shape, DEVICES, ((0,), *((),) * (len(shape) - 1)))


PAIRS = {
    "reduce": lambda shape: (partial_sum(shape), partial_sum(shape).reduced()),
    "reduce_scatter": lambda shape: (partial_sum(shape), cut_rows(shape)),
    "exchange": lambda shape: (cut_rows(shape), Layout.replicated(shape, DEVICES)),
}


class Moving:
    """A graph that redistributes, and what says so."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.graph = Graph()
        self.steps: dict[object, Redistribution] = {}

    def add_input(self, layout: Layout) -> Value:
        return self.graph.add_input("x", TensorSpec(layout.local_shape(self.rank), FLOAT))

    def move(self, value: Value, source: Layout, target: Layout) -> Value:
        (step,) = redistribute(source, target)
        operator = step.operator(self.rank)
        node = self.graph.add_node(operator, operator.name, [value], operator.infer(value.spec))
        self.steps[node] = step
        return node.outputs[0]

    def apply(self, operator, *values: Value) -> Value | None:
        specs = operator.infer(*(value.spec for value in values))
        outputs = self.graph.add_node(operator, operator.name, values, specs).outputs
        return outputs[0] if outputs else None

    def fuse(self) -> None:
        fuse_collectives(self.graph, self.steps, self.rank)

    def collectives(self) -> list[int]:
        """Return how many tensors each collective carries, in order."""
        return [len(node.inputs) for node in self.graph.nodes if node.operator.kind == "communication"]


def moved(communicator, kind: str, shapes, fused: bool):
    """Return what a rank has after moving a tensor of each shape, and how many collectives that took."""
    moving = Moving(communicator.rank)
    pairs = [PAIRS[kind](shape) for shape in shapes]
    inputs = [moving.add_input(source) for source, _ in pairs]
    moving.graph.outputs = [moving.move(value, *pair) for value, pair in zip(inputs, pairs, strict=True)]
    if fused:
        moving.fuse()
    random = np.random.default_rng([communicator.rank // 2])
    arrays = [random.integers(0, 9, value.spec.shape).astype(FLOAT) for value in inputs]
    results = Program(moving.graph, Runtime(communicator=communicator)).run(arrays)
    return [np.array(result) for result in results], moving.collectives()


@pytest.mark.parametrize("kind", PAIRS)
def test_fused_collectives_give_what_single_ones_give(kind):
    shapes = [(4, 3), (2,), (6, 1, 2)] + ([(3, 2), (1,)] if kind != "reduce_scatter" else [])
    for (alone, single), (together, fused) in zip(
        run_world(4, moved, kind, shapes, False), run_world(4, moved, kind, shapes, True), strict=True
    ):
        assert (single, fused) == ([1] * len(shapes), [len(shapes)])
        for wanted, found in zip(alone, together, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_a_collective_does_not_join_one_on_which_it_depends():
    moving = Moving(0)
    source, target = PAIRS["reduce"]((4,))
    x, y = moving.add_input(source), moving.add_input(source)
    first = moving.move(x, source, target)
    moving.graph.outputs = [moving.move(moving.apply(Exp(), first), source, target), moving.move(y, source, target)]
    moving.fuse()
    assert moving.collectives() == [1, 2]


def test_a_parameter_is_not_read_before_it_is_overwritten():
    moving = Moving(0)
    source, target = PAIRS["exchange"]((4,))
    local = TensorSpec(source.local_shape(0), FLOAT)
    weight = moving.graph.add_parameter(Parameter(np.zeros(local.shape), "weight"), local)
    x = moving.add_input(source)
    before = moving.move(weight, source, target)
    moving.apply(Assign(), weight, x)
    moving.graph.outputs = [before, moving.move(weight, source, target)]
    moving.fuse()
    assert moving.collectives() == [1, 1]


def test_a_large_tensor_and_other_ranks_or_dtypes_travel_alone():
    moving = Moving(0)
    small, large = PAIRS["reduce"]((4,)), PAIRS["reduce"]((1 << 17,))
    other = Layout((4,), DEVICES, ((),), partial=(1,))
    inputs = [(small, FLOAT), (large, FLOAT), ((other, other.reduced()), FLOAT), (small, np.dtype(np.float32))]
    for (source, target), dtype in inputs:
        value = moving.graph.add_input("x", TensorSpec(source.local_shape(0), dtype))
        moving.graph.outputs.append(moving.move(value, source, target))
    moving.fuse()
    assert moving.collectives() == [1] * 4


def test_outputs_of_one_fused_collective_do_not_overlap():
    moving = Moving(0)
    pairs = [PAIRS["reduce"](shape) for shape in ((4, 3), (2,), (5,))]
    moving.graph.outputs = [moving.move(moving.add_input(pair[0]), *pair) for pair in pairs]
    moving.fuse()
    offsets = plan_buffers(moving.graph).offsets
    places = sorted((offsets[value], offsets[value] + value.spec.byte_count) for value in moving.graph.outputs)
    assert all(stop <= start for (_, stop), (start, _) in pairwise(places))
