"""Tensors made of others: what is not there yet is not made, and what has a dtype of its own is converted."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import Tensor
from mpiparallel.common.initializer import initializer
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.trace import Trace, recording


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
