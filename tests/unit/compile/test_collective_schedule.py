"""When collectives run, and in which messages, on thread ranks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.communication.threads import run_world
from mpiparallel.compile.schedule_collectives import schedule_collectives
from mpiparallel.graph.execution.buffer_plan import plan_buffers
from mpiparallel.graph.execution.program import Program
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.graph import Graph, Notes, Value
from mpiparallel.graph.parameter import Parameter
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.ops import Assign, Cos, Exp, Mul, Sin
from mpiparallel.parallel.redistribution import Redistribution, redistribute
from mpiparallel.parallel.redistribution_operators import redistributing_operator
from mpiparallel.pipeline.action import REDUCE

DEVICES = DeviceMatrix((2, 2))
FLOAT = np.dtype(np.float64)


def partial_sum(shape) -> Layout:
    return Layout(shape, DEVICES, ((),) * len(shape), partial=(0,))


def cut_rows(shape) -> Layout:
    return Layout(shape, DEVICES, ((0,), *((),) * (len(shape) - 1)))


PAIRS = {
    "reduce": lambda shape: (partial_sum(shape), partial_sum(shape).reduced()),
    "reduce_scatter": lambda shape: (partial_sum(shape), cut_rows(shape)),
    "gather": lambda shape: (cut_rows(shape), Layout.replicated(shape, DEVICES)),
    "exchange": lambda shape: (cut_rows(shape), Layout(shape, DEVICES, ((1,), *((),) * (len(shape) - 1)))),
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
        operator = redistributing_operator([step], self.rank)
        node = self.graph.add_node(operator, operator.name, [value], operator.infer(value.spec))
        self.steps[node] = step
        return node.outputs[0]

    def apply(self, operator, *values: Value) -> Value | None:
        specs = operator.infer(*(value.spec for value in values))
        outputs = self.graph.add_node(operator, operator.name, values, specs).outputs
        return outputs[0] if outputs else None

    def fuse(self, overlaps: bool = False) -> None:
        schedule_collectives(self.graph, self.steps, self.rank, overlaps)

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
    shapes = [(4, 3), (2,), (6, 1, 2)] + ([(3, 2), (1,)] if kind in ("reduce", "exchange") else [])
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
    assert moving.collectives() == [2, 1]


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


def test_small_tensors_travel_together_up_to_a_million_elements():
    moving = Moving(0)
    source, target = PAIRS["reduce"]((1 << 14,))
    moving.graph.outputs = [moving.move(moving.add_input(source), source, target) for _ in range(70)]
    moving.fuse()
    assert moving.collectives() == [64, 6]


def test_outputs_of_one_fused_collective_do_not_overlap():
    moving = Moving(0)
    pairs = [PAIRS["reduce"](shape) for shape in ((4, 3), (2,), (5,))]
    moving.graph.outputs = [moving.move(moving.add_input(pair[0]), *pair) for pair in pairs]
    moving.fuse()
    offsets = plan_buffers(moving.graph).offsets
    places = sorted((offsets[value], offsets[value] + value.spec.byte_count) for value in moving.graph.outputs)
    assert all(stop <= start for (_, stop), (start, _) in pairwise(places))


def names(moving: Moving) -> list[str]:
    return [node.name for node in moving.graph.nodes]


def test_a_large_sum_starts_when_its_terms_are_there_and_ends_when_it_is_needed():
    moving = Moving(0)
    source, target = PAIRS["reduce"]((1 << 17,))
    x = moving.add_input(source)
    first = moving.apply(Exp(), x)
    second = moving.apply(Exp(), first)
    moving.graph.outputs = [moving.apply(Exp(), moving.move(first, source, target)), second]
    moving.fuse(overlaps=True)
    assert names(moving) == ["Exp", "StartAllReduce", "Exp", "EndAllReduce", "Exp"]


def test_the_next_large_parameter_is_fetched_while_the_one_before_is_used():
    moving = Moving(0)
    source, target = PAIRS["gather"]((1 << 18,))
    local = TensorSpec(source.local_shape(0), FLOAT)
    x = None
    for index in range(3):
        weight = moving.graph.add_parameter(Parameter(np.zeros(local.shape), f"weight{index}"), local)
        whole = moving.move(weight, source, target)
        x = moving.apply(Mul(), x, whole) if x is not None else moving.apply(Exp(), whole)
    moving.graph.outputs = [x]
    moving.fuse(overlaps=True)
    start, end = "StartGatherBlocks", "EndGatherBlocks"
    assert names(moving) == ["GatherBlocks", start, "Exp", end, start, "Mul", end, "Mul"]


def overlapped(communicator, overlaps: bool):
    """Return what a graph gives in which started collectives, small and large, chained and alone, meet updates."""
    moving = Moving(communicator.rank)
    outputs = []
    for shape in ((4, 3), (2,), (1 << 17,), (6, 2)):
        for kind in ("reduce", "reduce_scatter", "gather"):
            source, target = PAIRS[kind](shape)
            x = moving.apply(Sin(), moving.add_input(source))
            moved_once = moving.move(x, source, target)
            outputs += [moving.apply(Sin(), x), moving.apply(Sin(), moved_once)]
            both = Layout(shape, DEVICES, ((),) * len(shape), partial=(0, 1))
            term = moving.apply(Cos(), moving.add_input(both))
            steps = redistribute(both, PAIRS["reduce_scatter"](shape)[1])
            assert [step.kind for step in steps] == ["reduce_scatter", "reduce"]
            for step in steps:
                operator = redistributing_operator([step], communicator.rank)
                term = moving.graph.add_node(operator, operator.name, [term], operator.infer(term.spec)).outputs[0]
                moving.steps[term.node] = step
            outputs.append(term)
    moving.graph.outputs = outputs
    moving.fuse(overlaps)
    random = np.random.default_rng(communicator.rank)
    arrays = [random.standard_normal(value.spec.shape) for value in moving.graph.inputs]
    results = Program(moving.graph, Runtime(communicator=communicator)).run(arrays)
    return [np.array(result) for result in results], names(moving)


def test_collectives_that_run_beside_computation_give_what_blocking_ones_give():
    blocking, beside = run_world(4, overlapped, False), run_world(4, overlapped, True, overlaps=True)
    assert any(name.startswith("End") for name in beside[0][1])
    assert all(of_rank[1] == beside[0][1] for of_rank in beside)
    for (wanted, _), (found, _) in zip(blocking, beside, strict=True):
        for one, other in zip(wanted, found, strict=True):
            np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize(("elements", "messages"), [(1 << 16, [2]), ((1 << 16) + 1, [1, 1])])
@pytest.mark.parametrize("kind", ["reduce", "exchange"])
def test_a_tensor_of_more_than_65536_elements_travels_alone(kind: str, elements: int, messages: list[int]) -> None:
    moving = Moving(0)
    # Of what is exchanged a rank has half.
    pair = PAIRS[kind]((elements * (2 if kind == "exchange" else 1),))
    moving.graph.outputs = [moving.move(moving.add_input(pair[0]), *pair) for _ in range(2)]
    moving.fuse()
    assert moving.collectives() == messages


def test_what_is_gathered_counts_as_it_becomes_and_what_is_cut_as_it_was() -> None:
    for kind in ("gather", "reduce_scatter"):
        moving = Moving(0)
        pair = PAIRS[kind](((1 << 16) + 2,))
        moving.graph.outputs = [moving.move(moving.add_input(pair[0]), *pair) for _ in range(2)]
        moving.fuse()
        assert moving.collectives() == [1, 1]


def test_a_common_message_is_told_by_its_first_tensor_and_how_many_there_are_more() -> None:
    moving = Moving(0)
    pair = PAIRS["reduce"]((4,))
    values = [moving.move(moving.add_input(pair[0]), *pair) for _ in range(3)]
    for place, value in enumerate(values):
        value.node.operator.scope = value.node.name = f"x{place}"
    steps = [value.node for value in values]
    moving.graph.outputs = values
    done = schedule_collectives(moving.graph, moving.steps, 0, overlaps=False)
    (node,) = moving.graph.nodes
    assert (node.name, node.operator.scope) == ("x0", "x0 and 2 more")
    assert done == {node: tuple(steps)}
    assert [(value.node, value.index) for value in values] == [(node, 0), (node, 1), (node, 2)]


def test_collectives_of_other_kinds_or_guards_are_other_messages() -> None:
    moving = Moving(0)
    flag = moving.graph.add_parameter(Parameter(np.zeros(()), "flag"), TensorSpec((), FLOAT))
    for kind in ("reduce", "gather", "reduce", "exchange"):
        pair = PAIRS[kind]((4,))
        moving.graph.outputs.append(moving.move(moving.add_input(pair[0]), *pair))
    for guards in ((flag,), (flag,), ()):
        pair = PAIRS["reduce"]((4,))
        value = moving.move(moving.add_input(pair[0]), *pair)
        value.node.notes = Notes(guards=guards)
        moving.graph.outputs.append(value)
    moving.fuse()
    assert sorted(moving.collectives()) == [1, 1, 2, 3]


def test_a_sum_of_gradients_among_others_makes_their_message_one() -> None:
    moving = Moving(0)
    pair = PAIRS["reduce"]((4,))
    values = [moving.move(moving.add_input(pair[0]), *pair) for _ in range(3)]
    values[1].node.notes = Notes(action=REDUCE)
    moving.graph.outputs = values
    moving.fuse()
    (node,) = moving.graph.nodes
    assert node.notes.action == REDUCE


def test_small_collectives_wait_until_one_of_them_is_needed_and_run_in_front_of_that() -> None:
    moving = Moving(0)
    pair = PAIRS["reduce"]((4,))
    x = moving.add_input(pair[0])
    first = moving.move(moving.apply(Exp(), x), *pair)
    second = moving.move(moving.apply(Cos(), x), *pair)
    beside = moving.apply(Sin(), x)
    last = moving.move(moving.apply(Mul(), second, second), *pair)
    moving.graph.outputs = [first, beside, last]
    moving.fuse()
    kinds = ["sum" if node.operator.kind == "communication" else node.operator.name for node in moving.graph.nodes]
    assert kinds == ["Exp", "Cos", "Sin", "sum", "Mul", "sum"]
    assert moving.collectives() == [2, 1]
