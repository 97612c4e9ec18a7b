"""Parameters of which a rank holds a part, or nothing: what needs the whole is refused with the way to do it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.common.initializer import initializer
from mpiparallel.errors import ConfigurationError, LayoutError, TraceError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.conformance.hidden_arrays.backend import hidden_backend, install

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
        (lambda weight: weight.set_data(np.ones((1, 2))), "of which this rank holds .2, 2., cannot take"),
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


WHOLE, WHOLE_OF_TWO = Layout((4, 2), DeviceMatrix((1,)), ((), ())), Layout((4, 2), DeviceMatrix((2,)), ((), ()))


def test_a_parameter_that_stays_whole_keeps_the_array_that_programs_read() -> None:
    weight = Parameter(VALUES, "w")
    weight.place(WHOLE, 0, NumpyBackend())
    array = weight.array
    np.testing.assert_array_equal(array, VALUES)
    for layout, rank in ((WHOLE_OF_TWO, 1), (Layout((4, 2), DeviceMatrix((1, 2)), ((0,), ())), 0)):
        weight.place(layout, rank, NumpyBackend())
        assert weight.array is array
    assert weight.box == Box.whole((4, 2))


def test_a_new_parameter_is_trained_saved_and_summed_and_of_no_cell_yet() -> None:
    weight = Parameter(VALUES)
    assert (weight.name, weight.requires_grad, weight.layerwise_parallel) == ("Parameter", True, False)
    assert (weight.parallel_optimizer, weight.transient, weight.is_held, weight.rank) == (True, False, False, 0)
    assert (weight.cache_enable, weight.parallel_optimizer_comm_recompute) == (False, False)
    assert weight.layout is None
    with pytest.raises(LayoutError, match=r"'Parameter' of shape \(4, 2\), .* cannot take data of shape \(3, 2\)"):
        weight.set_data(np.ones((3, 2)))


class Asked:
    """First values that write down for which part they are asked."""

    def __init__(self) -> None:
        self.boxes: list[Box] = []

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> np.ndarray[Any, Any]:
        assert (name, shape) == ("w", (4, 2))
        self.boxes.append(box)
        return VALUES[box.within(Box.whole(shape))].copy()


def test_a_rank_makes_its_own_slice_of_the_first_values_alone() -> None:
    asked = Asked()
    weight = Parameter(Tensor(shape=(4, 2), dtype=np.float64, init=asked), "w")
    weight.place(HALVES, 1, NumpyBackend())
    assert asked.boxes == [Box((2, 0), (4, 2))]
    np.testing.assert_array_equal(weight.asnumpy(), VALUES[2:])


def test_values_that_were_set_before_a_parameter_is_placed_are_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = Parameter(Tensor(shape=(4, 2), dtype=np.float64, init=Asked()), "w").init_data()
    weight.set_data(VALUES * 3)
    install(monkeypatch)
    backend = hidden_backend()
    weight.place(WHOLE, 0, backend)
    np.testing.assert_array_equal(backend.to_host(weight.array), VALUES * 3)


def test_a_part_is_taken_of_the_whole_that_a_rank_holds_and_stays_so() -> None:
    weight = lower_half()
    assert (weight.sliced, weight.box, weight.rank) == (True, Box((2, 0), (4, 2)), 1)
    array = weight.array
    np.testing.assert_array_equal(array, VALUES[2:])
    # Equal but for an axis of one device.
    weight.place(Layout((4, 2), DeviceMatrix((2, 1)), ((0,), ())), 1, NumpyBackend())
    assert weight.array is array
    with pytest.raises(LayoutError, match=r"'w' is laid out as .* but wanted as .*; make the network anew after chang"):
        weight.place(WHOLE, 1, NumpyBackend())


def test_a_parameter_that_was_given_back_begins_anew_and_one_that_is_elsewhere_says_so() -> None:
    weight = lower_half()
    assert not weight.is_elsewhere
    weight.move(WHOLE, 0, VALUES + 1)
    np.testing.assert_array_equal(weight.asnumpy(), VALUES + 1)
    weight.leave()
    assert weight.is_elsewhere
    assert weight.box == Box.whole((4, 2))
    with pytest.raises(LayoutError, match=r"'w' of shape \(4, 2\) is held by other ranks, to which Model.reshard has"):
        weight.asnumpy()
    weight.move(HALVES, 0, VALUES[:2])
    assert (weight.is_elsewhere, weight.asnumpy().tolist()) == (False, VALUES[:2].tolist())
    counter = Parameter(initializer("ones", (4,), np.float32), "counter")
    counter.place(Layout((4,), DeviceMatrix((2,)), ((0,),)), 1, NumpyBackend())
    counter.array[...] = 5.0
    counter.forget()
    assert (counter.sliced, counter.asnumpy().tolist()) == (False, [1.0] * 4)


@pytest.mark.parametrize("make", [lambda: VALUES, lambda: initializer("ones", (4, 2), np.float64)])
def test_a_clone_and_a_twin_are_parameters_of_their_own_with_the_settings_of_the_first(make: Callable[[], Any]) -> None:
    weight = Parameter(make(), "w", requires_grad=False, layerwise_parallel=True, parallel_optimizer=False)
    clone, zeros = weight.clone(), weight.clone(initializer("zeros", (4, 2), np.float64))
    twin = weight.twin("moment", weight.clone(initializer("ones", (4, 2), np.float64)).initial)
    for one in (clone, zeros, twin):
        assert (one.layerwise_parallel, one.parallel_optimizer, one.requires_grad) == (True, False, False)
        assert (one.shape, one.dtype) == ((4, 2), np.float64)
    assert [one.name for one in (clone, zeros, twin)] == ["w", "w", "moment.w"]
    np.testing.assert_array_equal(clone.asnumpy(), weight.asnumpy())
    assert (zeros.asnumpy().sum(), twin.asnumpy().sum()) == (0.0, 8.0)
    clone.set_data(VALUES * 3)
    assert not np.array_equal(weight.asnumpy(), clone.asnumpy())


def test_new_values_go_into_the_memory_that_programs_read_in_the_type_of_the_parameter() -> None:
    weight, given = Parameter(VALUES.astype(np.float32), "w"), VALUES + 0.5
    array = weight.asnumpy()
    assert weight.set_data(given) is weight
    assert (weight.asnumpy() is array, weight.dtype) == (True, np.float32)
    weight[1, 0] = 7.0
    weight[2:] = Tensor(np.zeros((2, 2)))
    assert weight.asnumpy() is array
    assert array.tolist() == [[0.5, 1.5], [7.0, 3.5], [0.0, 0.0], [0.0, 0.0]]
    assert given[1, 0] == 2.5
    assert weight.set_data(np.ones((3, 1)), slice_shape=True).shape == (3, 1)
    assert repr(weight) == "Parameter (name=w, shape=(3, 1), dtype=Float32, requires_grad=True)"


def test_what_parameter_servers_and_planners_are_told_is_refused_or_said_to_change_nothing(remarks: Any) -> None:
    weight = Parameter(VALUES, "w")
    with pytest.raises(ConfigurationError, match=r"'w': set_param_ps needs parameter servers, .*; cut it by"):
        weight.set_param_ps()
    with pytest.raises(ConfigurationError, match=r"'w': init_data\(layout\) is not offered; each rank fills its slice"):
        weight.init_data(layout=((1,),))
    assert remarks() == []
    weight.add_pipeline_stage(2)
    assert remarks() == [
        "parameter 'w': add_pipeline_stage(2) has no effect here: it is in the stages of the cells that use it"
    ]
    assert weight.init_data() is weight.inited_param is weight
    assert (weight.sliced, weight.comm_fusion, Parameter(1.0).name) == (False, 1, "Parameter")
