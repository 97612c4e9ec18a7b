"""A program of one rank: what it is fed and returns, what it needs of memory, and what it tells of its time."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.execution.program import Profile, Program
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.graph import Graph
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording

FLOAT64 = np.dtype(np.float64)
X = np.arange(16.0).reshape(4, 4) / 8


def given(graph: Graph, name: str, *shape: int) -> Tensor:
    return Tensor.of_value(graph.add_input(name, TensorSpec(shape, FLOAT64)))


def two_kernels() -> Program:
    trace = Trace()
    with recording(trace):
        x = given(trace.graph, "x", 4, 4)
        trace.graph.outputs = [ops.exp(ops.matmul(x, x)).value]
    return Program(trace.graph, Runtime())


def test_what_a_program_returns_may_be_an_input_a_constant_or_computed_and_an_input_may_be_unread() -> None:
    trace = Trace()
    with recording(trace):
        x, _, scale = (given(trace.graph, name, 4, 4) for name in ("x", "unread", "scale"))
        constant = trace.value_of(Tensor(X + 1))
        trace.graph.outputs = [x.value, constant, (x * scale).value]
    program = Program(trace.graph, Runtime())
    for factor in (2.0, 3.0):
        shown, fixed, made = program.run([X, np.full((4, 4), np.nan), np.full((4, 4), factor)])
        np.testing.assert_array_equal(shown, X)
        np.testing.assert_array_equal(fixed, X + 1)
        np.testing.assert_array_equal(made, X * factor)


def test_the_memory_of_a_program_is_that_of_what_is_there_at_a_time() -> None:
    # The product and its exponential share 16 numbers of 8 bytes.
    assert two_kernels().arena_bytes == 128


def test_images_whose_channels_are_last_have_their_shape_and_values_and_lie_so_in_memory() -> None:
    trace = Trace()
    images = np.arange(2.0 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    with recording(trace):
        x = given(trace.graph, "x", *images.shape)
        made = ops.exp(x)
        trace.graph.outputs = [made.value]
    trace.graph.channels_last = frozenset({made.value})
    (found,) = Program(trace.graph, Runtime()).run([images / 100])
    np.testing.assert_allclose(found, np.exp(images / 100), rtol=1e-14)
    assert found.transpose(0, 2, 3, 1).flags.c_contiguous


def test_a_profile_has_the_seconds_of_each_kernel_of_the_last_step_and_sums_of_all_steps() -> None:
    program = two_kernels()
    clock = count()
    profile = Profile(clock=lambda: float(next(clock)))
    for steps in (1, 2):
        (found,) = program.run_profiled([X], profile)
        np.testing.assert_allclose(found, np.exp(X @ X), rtol=1e-13)
        # Each look at the clock is a second: before the step, before and after two kernels, and at the end.
        assert (profile.steps, profile.total) == (steps, 5.0 * steps)
        assert profile.operators == {"MatMul": 1.0 * steps, "Exp": 1.0 * steps}
        assert profile.kinds == {"gemm": 1.0 * steps, "kernel": 1.0 * steps}
        assert [(node.operator.name, seconds) for node, seconds in profile.nodes] == [("MatMul", 1.0), ("Exp", 1.0)]


def test_a_profiled_step_says_nothing_of_what_becomes_infinite() -> None:
    trace = Trace()
    with recording(trace):
        trace.graph.outputs = [ops.log(given(trace.graph, "x", 2)).value]
    (found,) = Program(trace.graph, Runtime()).run_profiled([np.array([0.0, 1.0])], Profile())
    assert found.tolist() == [-np.inf, 0.0]


@pytest.mark.parametrize("profiled", [False, True])
def test_an_input_is_read_anew_in_each_run_and_not_changed(profiled: bool) -> None:
    program, x = two_kernels(), X.copy()
    for _ in range(2):
        (found,) = program.run_profiled([x], Profile()) if profiled else program.run([x])
        np.testing.assert_allclose(found, np.exp(x @ x), rtol=1e-13)
        x = x + 0.25
    np.testing.assert_array_equal(x, X + 0.5)
