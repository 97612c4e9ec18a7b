"""Parameters of which a rank holds a part, or nothing: what needs the whole is refused with the way to do it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.errors import LayoutError, TraceError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

VALUES = np.arange(8.0).reshape(4, 2)
HALVES = Layout((4, 2), DeviceMatrix((2,)), ((0,), ()))


def lower_half() -> Parameter:
    weight = Parameter(VALUES, "w")
    weight.place(HALVES, 1, NumpyBackend())
    return weight


def overwrite(weight: Parameter) -> None:
    weight[0] = 9.0


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (overwrite, "is cut, and this rank holds .2, 2. of it; give its new values to set_data"),
        (lambda weight: weight.clone(), "is cut, and this rank holds .2, 2. of it; clone it before the network"),
        (lambda weight: weight.set_data(np.ones((3, 2))), "of which this rank holds .2, 2., cannot take"),
        (lambda weight: weight.set_data(VALUES, slice_shape=True), "holds .2, 2., cannot take data of shape .4, 2."),
    ],
)
def test_what_needs_all_of_a_cut_parameter_is_refused_and_changes_nothing(
    use: Callable[[Parameter], Any], said: str
) -> None:
    weight = lower_half()
    with pytest.raises(LayoutError, match=rf"parameter 'w' of shape \(4, 2\),? .*{said}"):
        use(weight)
    np.testing.assert_array_equal(weight.asnumpy(), VALUES[2:])


@pytest.mark.parametrize(("data", "is_slice"), [(2 * VALUES, False), (2 * VALUES[2:], True), (2 * VALUES[2:], False)])
def test_new_values_of_a_cut_parameter_are_those_of_the_whole_or_of_the_part(data: Any, is_slice: bool) -> None:
    weight = lower_half().set_data(Tensor(data), is_slice)
    np.testing.assert_array_equal(weight.asnumpy(), 2 * VALUES[2:])


def test_a_parameter_of_another_stage_takes_no_values_here() -> None:
    weight = lower_half()
    weight.leave(HALVES, 1)
    with pytest.raises(LayoutError, match=r"'w' of shape \(4, 2\) is held by other ranks, .*of the pipeline; read"):
        weight.set_data(VALUES)


def test_only_a_parameter_is_overwritten_in_a_traced_network() -> None:
    trace = Trace()
    with recording(trace):
        x = Tensor.of_value(trace.graph.add_input("x", Tensor(VALUES).spec))
        with pytest.raises(TraceError, match=r"Assign: inputs \(0,\) are overwritten and must be parameters"):
            ops.Assign()(x, 1.0)
