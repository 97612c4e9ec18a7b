"""The static buffer plan: values that live at the same time never overlap."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mpiparallel.ops as ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.execution import buffer_plan
from mpiparallel.graph.execution.buffer_plan import BufferPlan, plan_buffers
from mpiparallel.graph.execution.program import Program
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.own_gradient import OwnGradient
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording

UNARY = {
    "exp": (lambda x: ops.tanh(x), np.tanh),
    "neg": (lambda x: -x, np.negative),
    "reshape": (lambda x: x.reshape((3, 4)), lambda x: x.reshape(3, 4)),
    "turn": (lambda x: x.transpose((1, 0)).reshape((3, 4)), lambda x: x.T.reshape(3, 4)),
    "slice": (lambda x: x[::-1], lambda x: x[::-1]),
}
BINARY = {
    "add": (lambda x, y: x + y, np.add),
    "mul": (lambda x, y: x * y, np.multiply),
    "sub": (lambda x, y: x - y, np.subtract),
}


@settings(max_examples=150)
@given(data=st.data())
def test_random_programs_compute_what_numpy_computes(data) -> None:
    """Memory is shared by dying values, views and results computed in place; the values must not notice."""
    trace = Trace()
    array = np.random.default_rng(1).uniform(-1, 1, (3, 4))
    tensors = [Tensor.of_value(trace.graph.add_input("x", TensorSpec(array.shape, array.dtype)))]
    arrays = [array]
    with recording(trace):
        for _ in range(data.draw(st.integers(1, 14))):
            first = data.draw(st.integers(0, len(tensors) - 1))
            if data.draw(st.booleans()):
                traced, direct = UNARY[data.draw(st.sampled_from(sorted(UNARY)))]
                tensors.append(traced(tensors[first]))
                arrays.append(direct(arrays[first]))
            else:
                second = data.draw(st.integers(0, len(tensors) - 1))
                traced, direct = BINARY[data.draw(st.sampled_from(sorted(BINARY)))]
                tensors.append(traced(tensors[first], tensors[second]))
                arrays.append(direct(arrays[first], arrays[second]))
    chosen = data.draw(st.lists(st.integers(0, len(tensors) - 1), min_size=1, max_size=4))
    trace.graph.outputs = [tensors[index].value for index in chosen]
    trace.graph.remove_dead_nodes()
    with patch.object(buffer_plan, "_MOST_PACKED_CLOSELY", data.draw(st.sampled_from([1, 4096]))):
        program = Program(trace.graph, Runtime())
    for _ in range(2):
        for index, result in zip(chosen, program.run([array]), strict=True):
            np.testing.assert_allclose(result, arrays[index], rtol=1e-13)


def test_a_chain_runs_in_one_buffer() -> None:
    trace = Trace()
    x = Tensor.of_value(trace.graph.add_input("x", TensorSpec((1000,), np.dtype(np.float64))))
    with recording(trace):
        y = ops.exp(x)
        for _ in range(5):
            y = ops.tanh(-y)
    trace.graph.outputs = [y.value]
    assert plan_buffers(trace.graph).byte_count == 8000


@pytest.mark.parametrize("closely", [1, 4096])
def test_of_a_chain_of_products_no_more_lie_in_memory_than_are_needed_at_a_time(closely: int) -> None:
    trace = Trace()
    x = Tensor.of_value(trace.graph.add_input("x", TensorSpec((100, 100), np.dtype(np.float64))))
    with recording(trace):
        y = ops.matmul(x, x)
        for _ in range(7):
            y = ops.matmul(y, x)
    trace.graph.outputs = [y.value]
    # One is read while the next is written; where only one is packed closely, it has a place of its own.
    with patch.object(buffer_plan, "_MOST_PACKED_CLOSELY", closely):
        assert plan_buffers(trace.graph).byte_count <= (2 if closely > 1 else 3) * (80_000 + 4096)


def square(trace: Trace) -> Tensor:
    """Return an input of 8 times 8 numbers of 8 bytes: 512 bytes, eight times the border of 64."""
    return Tensor.of_value(trace.graph.add_input("x", TensorSpec((8, 8), np.dtype(np.float64))))


def test_a_program_that_computes_nothing_needs_no_memory() -> None:
    trace = Trace()
    assert planned(square(trace), trace=trace).byte_count == 0


def planned(*outputs: Tensor, trace: Trace) -> BufferPlan:
    trace.graph.outputs = [one.value for one in outputs]
    return plan_buffers(trace.graph)


@pytest.mark.parametrize(("closely", "byte_count"), [(4096, 2 * 128 + 100), (1, 3 * 128)])
def test_each_value_begins_at_a_multiple_of_64_bytes(closely: int, byte_count: int) -> None:
    trace = Trace()
    x = Tensor.of_value(trace.graph.add_input("x", TensorSpec((5, 5), np.dtype(np.float32))))
    with recording(trace):
        first = ops.matmul(x, x)
        second = ops.matmul(first, x)
        third = ops.matmul(second, first)
    with patch.object(buffer_plan, "_MOST_PACKED_CLOSELY", closely):
        plan = planned(first, second, third, trace=trace)
    assert [plan.offsets[one.value] for one in (first, second, third)] == [0, 128, 256]
    assert plan.byte_count == byte_count


@pytest.mark.parametrize("closely", [1, 4096])
def test_a_value_takes_the_place_of_one_that_nobody_reads_any_more(closely: int) -> None:
    trace = Trace()
    x = square(trace)
    with recording(trace):
        first = ops.matmul(x, x)
        read_once = ops.matmul(x, first)
        third = ops.matmul(read_once, x)
        last = ops.matmul(third, x)
    with patch.object(buffer_plan, "_MOST_PACKED_CLOSELY", closely):
        plan = planned(first, third, last, trace=trace)
    values = first, read_once, third, last
    assert [plan.offsets[one.value] for one in values] == [0, 512, 1024, 512]
    assert [plan.lives[one.value] for one in values] == [(0, 4), (1, 2), (2, 4), (3, 4)]
    assert plan.byte_count == 3 * 512


def test_small_values_lie_where_a_large_one_was() -> None:
    trace = Trace()
    x = Tensor.of_value(trace.graph.add_input("x", TensorSpec((64, 8), np.dtype(np.float64))))
    with recording(trace):
        large = ops.MatMul(transpose_b=True)(x, x)
        small = ops.matmul(large, x)
        smaller = ops.MatMul(transpose_a=True)(x, small)
        smallest = ops.reduce_sum(smaller)
    plan = planned(small, smallest, trace=trace)
    assert (plan.offsets[large.value], plan.offsets[small.value]) == (0, 64 * 64 * 8)
    assert (plan.offsets[smaller.value], plan.offsets[smallest.value]) == (0, 512)
    assert plan.byte_count == 64 * 64 * 8 + 64 * 8 * 8


def test_a_result_is_computed_in_the_memory_of_one_dying_input_and_the_other_is_free() -> None:
    trace = Trace()
    x = square(trace)
    with recording(trace):
        first = ops.matmul(x, x)
        second = ops.matmul(first, x)
        total = first + second
        last = ops.matmul(x, total)
    plan = planned(last, trace=trace)
    assert plan.offsets[total.value] == plan.offsets[first.value] == 0
    assert plan.lives[total.value] == plan.lives[first.value] == (0, 3)
    assert plan.offsets[last.value] == plan.offsets[second.value] == 512
    assert plan.byte_count == 2 * 512


def added(x: Tensor) -> tuple[Tensor, Tensor]:
    given = ops.matmul(x, x)
    return given, given + 1.0


def read_again(x: Tensor) -> tuple[Tensor, Tensor]:
    given = ops.matmul(x, x)
    made = -given
    ops.matmul(made, given)
    return given, made


def of_another_type(x: Tensor) -> tuple[Tensor, Tensor]:
    given = x.astype(np.float32)
    return given, given + x


def of_another_shape(x: Tensor) -> tuple[Tensor, Tensor]:
    given = ops.matmul(x[:1], x)
    return given, given + x


def second_of_two(x: Tensor) -> tuple[Tensor, Tensor]:
    given = ops.matmul(x, x)
    return given, x + given


def one_of_two_made_together(x: Tensor) -> tuple[Tensor, Tensor]:
    # The largest numbers, and where they were: as many bytes, for as long.
    given, places = ops.topk(x.astype(np.float32), 8)
    return given, given + places


def turned(x: Tensor) -> tuple[Tensor, Tensor]:
    given = ops.matmul(x, x)
    return given, -given.transpose((1, 0))


def seen_turned(x: Tensor) -> tuple[Tensor, Tensor]:
    given = ops.matmul(x, x)
    return given, given * given.transpose((1, 0))


@pytest.mark.parametrize(
    ("make", "shares"),
    [
        (added, True),
        (second_of_two, True),
        (one_of_two_made_together, True),
        (read_again, False),
        (of_another_type, False),
        (of_another_shape, False),
        (turned, False),
        (seen_turned, False),
    ],
)
def test_a_result_takes_the_memory_of_an_input_only_of_its_type_and_shape_that_nobody_else_sees(
    make: Callable[[Tensor], tuple[Tensor, Tensor]], shares: bool
) -> None:
    trace = Trace()
    x = square(trace)
    with recording(trace):
        given, made = make(x)
    plan = planned(*(Tensor.of_value(value) for value in trace.graph.nodes[-1].outputs), made, trace=trace)
    assert (plan.offsets[made.value] == plan.offsets[given.value]) == shares


def test_images_whose_channels_are_last_are_not_computed_in_memory_where_they_are_first() -> None:
    trace = Trace()
    x = square(trace)
    with recording(trace):
        given = ops.matmul(x, x)
        made = -given
    trace.graph.channels_last = frozenset({made.value})
    plan = planned(made, trace=trace)
    assert plan.offsets[made.value] != plan.offsets[given.value]


def test_what_shows_another_value_keeps_that_in_memory_and_no_other_input() -> None:
    trace = Trace()
    x = square(trace)
    with recording(trace):
        given = ops.matmul(x, x)
        other = ops.matmul(given, x)
        shown = OwnGradient(lambda *_: (), 2)(given, other, x)
        last = ops.matmul(x, x)
    plan = planned(shown, last, trace=trace)
    assert len(plan.views) == 1
    assert plan.offsets[shown.value] == plan.offsets[given.value] == 0
    assert plan.lives[given.value] == (0, 4)
    assert plan.offsets[last.value] == plan.offsets[other.value] == 512


@pytest.mark.parametrize(
    ("make", "views"),
    [
        (lambda x: x.reshape((4, 16)).reshape((64,)), 2),
        (lambda x: x.transpose((1, 0)).transpose((1, 0)), 2),
        (lambda x: x.transpose((1, 0)).reshape((64,)), 1),
        (lambda x: x.transpose((1, 0)).reshape((4, 16)).reshape((64,)), 2),
        (lambda x: x[1:3, 2:4].reshape((4,)), 1),
    ],
)
def test_what_is_reshaped_shows_the_same_memory_but_where_elements_do_not_follow_one_another(
    make: Callable[[Tensor], Tensor], views: int
) -> None:
    trace = Trace()
    x = square(trace)
    with recording(trace):
        given = ops.matmul(x, x)
        made = make(given)
    plan = planned(made, trace=trace)
    assert len(plan.views) == views
    last = len(trace.graph.nodes)
    is_copied = plan.offsets[made.value] != plan.offsets[given.value]
    assert is_copied == (views < last - 1)
    assert plan.lives[made.value][1] == last
