"""The static buffer plan: values that live at the same time never overlap."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mpiparallel.ops as ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.execution import buffer_plan
from mpiparallel.graph.execution.buffer_plan import plan_buffers
from mpiparallel.graph.execution.program import Program
from mpiparallel.graph.execution.runtime import Runtime
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
