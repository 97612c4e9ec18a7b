"""Tensors made of others: what is not there yet is not made, and what has a dtype of its own is converted."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import Tensor
from mpiparallel.common.initializer import initializer
from mpiparallel.errors import ConfigurationError, ShapeError, TraceError
from mpiparallel.graph.trace import Trace, recording
from tests.conformance.hidden_arrays.backend import hidden_backend, install


def test_a_tensor_of_one_whose_values_come_later_has_none_yet_either() -> None:
    later = initializer("ones", (2, 3), np.float32)
    copy = Tensor(later)
    assert (copy.has_init, copy.shape, copy.dtype) == (True, (2, 3), later.dtype)
    assert copy.initial is later.initial
    assert copy.asnumpy().tolist() == [[1.0] * 3] * 2


def test_a_tensor_of_one_in_a_trace_stands_for_the_same_value() -> None:
    trace = Trace()
    with recording(trace):
        x = Tensor.of_value(trace.graph.add_input("x", Tensor(np.ones(3, np.float32)).spec))
        copy = Tensor(x)
    assert copy.value is x.value
    assert copy.spec == x.spec


@pytest.mark.parametrize("dtype", [None, np.float32, np.float64, np.int8])
def test_a_tensor_of_one_with_values_has_them_in_the_dtype_that_is_asked_for(dtype: type | None) -> None:
    values = np.arange(4, dtype=np.float32)
    copy = Tensor(Tensor(values), dtype)
    assert copy.asnumpy().dtype == (np.float32 if dtype is None else dtype)
    assert copy.asnumpy().tolist() == values.tolist()
    assert not copy.has_init


def test_a_tensor_of_one_whose_values_come_later_is_made_for_another_dtype() -> None:
    copy = Tensor(initializer("ones", (2,), np.float32), np.float64)
    assert copy.asnumpy().dtype == np.float64
    assert copy.asnumpy().tolist() == [1.0, 1.0]


def test_a_tensor_is_contiguous_whatever_order_its_array_has() -> None:
    assert Tensor(np.ones((2, 3)).T).is_contiguous()


def test_only_an_array_is_taken_as_the_memory_of_a_tensor() -> None:
    values = np.arange(3, dtype=np.float32)
    tensor = Tensor.from_numpy(values)
    values[0] = 7
    assert tensor.asnumpy().tolist() == [7.0, 1.0, 2.0]
    with pytest.raises(ConfigurationError, match=r"^Tensor.from_numpy: a list is no array; use Tensor\(...\)$"):
        Tensor.from_numpy([1.0])


@pytest.mark.parametrize("dtype", [np.int32, np.float16, np.float32, np.bool_])
def test_numpy_is_given_a_tensor_as_it_is_or_in_the_dtype_that_it_asks_for(dtype) -> None:
    tensor = Tensor(np.array([0, 1, 1], dtype))
    assert (np.asarray(tensor).dtype, tensor.__array__().dtype) == (dtype, dtype)
    assert (np.asarray(tensor, np.float64).dtype, tensor.__array__(np.float64).dtype) == (np.float64, np.float64)
    np.testing.assert_array_equal(tensor, np.array([0, 1, 1], dtype))


def test_an_integer_tensor_is_an_index_and_a_count() -> None:
    two = Tensor(np.array(2))
    assert ["a", "b", "c"][two] == "c"
    assert list(range(two)) == [0, 1]


def test_a_tensor_whose_values_come_later_says_so_and_makes_none() -> None:
    later = initializer("ones", (2, 3), np.float32)
    assert repr(later) == "Tensor(shape=[2, 3], dtype=Float32, no values yet)"
    assert (later.is_init, Tensor(1.0).is_init) == (False, True)


@pytest.mark.parametrize(
    "array", [np.zeros((2, 3, 4)), np.zeros((), np.int8), np.zeros((0, 3), np.float16), np.zeros(5, np.complex64)]
)
def test_sizes_are_those_of_an_array_in_c_order(array: np.ndarray) -> None:
    tensor = Tensor(array)
    assert (tensor.shape, tensor.size, tensor.ndim, len(tensor.shape)) == (array.shape, array.size, *(array.ndim,) * 2)
    assert (tensor.dim(), tensor.ndimension()) == (array.ndim, array.ndim)
    assert (tensor.numel(), tensor.nelement()) == (array.size, array.size)
    assert (tensor.itemsize, tensor.nbytes) == (array.itemsize, array.nbytes)
    if array.size:
        assert tensor.strides == array.strides
        assert Tensor(np.array(array, order="F")).strides == array.strides


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (1.5, np.float32),
        ([[1.5], [2.0]], np.float32),
        (3, np.int64),
        ([1, 2], np.int64),
        (True, np.bool_),
        (np.float64(1.5), np.float64),
        (np.float16(1.5), np.float16),
        (np.array([1.5]), np.float64),
        (np.array(2, np.int8), np.int8),
    ],
)
def test_floats_of_python_become_float32_and_numpys_numbers_stay_what_they_are(given: object, dtype: type) -> None:
    tensor = Tensor(given)
    assert tensor.dtype == np.dtype(dtype)
    assert tensor.asnumpy().dtype == np.dtype(dtype)
    assert tensor.tolist() == np.asarray(given).tolist()


def test_the_memory_of_an_array_is_shared_unless_its_type_changes() -> None:
    values = np.arange(3.0)
    assert np.shares_memory(Tensor(values).asnumpy(), values)
    assert np.shares_memory(Tensor(values, np.float64).asnumpy(), values)
    assert not np.shares_memory(Tensor(values, np.float32).asnumpy(), values)
    assert not np.shares_memory(Tensor(values).copy().asnumpy(), values)


@pytest.mark.parametrize(("shape", "extents"), [(5, (5,)), (None, ()), ([2, 3], (2, 3)), ((), ())])
def test_the_shape_of_values_that_come_later_may_be_a_number_and_their_type_is_float32(
    shape: object, extents: tuple[int, ...]
) -> None:
    initial = initializer("ones", (2, 3), np.float32).initial
    later = Tensor(shape=shape, init=initial)
    assert (later.shape, later.dtype, later.has_init, later.is_init) == (extents, np.float32, True, False)
    assert later.init_data() is later
    assert (later.has_init, later.tolist()) == (False, np.ones(extents).tolist())


def test_a_tensor_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"^Tensor\(\) needs input_data, or a shape, a dtype and an init$"):
        Tensor()


def test_what_is_written_to_elements_leaves_the_array_of_the_user_as_it_was() -> None:
    values = np.zeros((3, 4), np.float32)
    tensor = Tensor(values)
    tensor[0] = 1.0
    tensor[1:, Tensor(np.array([0, 2]))] = Tensor(np.array([[2.0, 3.0], [4.0, 5.0]], np.float32))
    tensor[Tensor(np.array(2)), 3] = 6
    assert tensor.tolist() == [[1.0] * 4, [2.0, 0.0, 3.0, 0.0], [4.0, 0.0, 5.0, 6.0]]
    assert not values.any()


def test_a_tensor_has_a_length_a_hash_and_one_element_where_it_has() -> None:
    tensor = Tensor(np.arange(6.0).reshape(3, 2))
    assert (len(tensor), {tensor: "kept"}[tensor]) == (3, "kept")
    assert tensor.data is tensor is tensor.contiguous()
    assert (Tensor([2.5]).item(), float(Tensor(2.5)), int(Tensor(2.5)), bool(Tensor(0.0))) == (2.5, 2.5, 2, False)
    with pytest.raises(ShapeError, match=r"^a 0-d tensor has no length$"):
        len(Tensor(1.0))
    assert repr(Tensor([1.0, 2.0])) == "Tensor(shape=[2], dtype=Float32, value=\n[1. 2.])"


def test_in_a_trace_a_copy_is_the_tensor_itself_and_elements_are_not_written_to() -> None:
    trace = Trace()
    with recording(trace):
        x = Tensor.of_value(trace.graph.add_input("x", Tensor(np.ones(3, np.float32)).spec))
        assert x.copy() is x
        with pytest.raises(TraceError, match=r"test_tensor.py:\d+: construct overwrites elements of a tensor while"):
            x[0] = 1.0
        assert repr(x) == "Tensor(shape=[3], dtype=Float32, no values yet)"
        assert not x.has_init


class Late:
    """A result that has come to the host already, and is 7."""

    def read(self) -> np.ndarray:
        return np.full(2, 7.0)


def test_a_result_of_a_device_is_read_from_where_it_was_brought(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    array = hidden_backend().from_host(np.arange(2.0))
    late, now = Tensor.arriving(array, Late()), Tensor.arriving(array, None)  # type: ignore[arg-type]
    assert (late.comes_late, now.comes_late, Tensor(1.0).comes_late) == (True, False, False)
    assert (late.tolist(), now.tolist()) == ([7.0, 7.0], [0.0, 1.0])
