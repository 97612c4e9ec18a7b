"""Methods of each element at their edges: closeness, bounds, rounding, copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, nn, ops
from mpiparallel.errors import ConfigurationError

X = np.array([np.inf, -np.inf, np.inf, np.inf, 1.0, np.nan, 0.0, -0.0])
Y = np.array([np.inf, -np.inf, -np.inf, 1.0, np.inf, np.nan, -0.0, 1e-9])


@pytest.mark.parametrize("equal_nan", [False, True])
def test_infinities_are_close_to_themselves_alone(equal_nan: bool) -> None:
    wanted = np.isclose(X, Y, equal_nan=equal_nan)
    np.testing.assert_array_equal(ops.isclose(X, Y, equal_nan=equal_nan).asnumpy(), wanted)
    np.testing.assert_array_equal(Tensor(X).isclose(Y, equal_nan=equal_nan).asnumpy(), wanted)


@pytest.mark.parametrize(
    ("x", "y", "bounds"),
    [
        ([1.0], [1.0 + 9e-6], {}),
        ([1.0], [1.0 + 2e-5], {}),
        ([0.0], [9e-9], {}),
        ([0.0], [2e-8], {}),
        ([1.0, 2.0], [1.0, 2.1], {}),
        ([1.0, 2.0], [1.0, 2.1], {"rtol": 0.1}),
        ([1.0, 2.0], [1.0, 2.1], {"rtol": 0.0, "atol": 0.125}),
        ([1.0, 2.0], [1.25, 2.25], {"rtol": 0.0, "atol": 0.25}),
        ([-1.0], [-1.25], {"rtol": 0.25, "atol": 0.0}),
    ],
)
def test_tensors_are_close_where_numpys_arrays_are(x: Any, y: Any, bounds: dict[str, float]) -> None:
    wanted = np.allclose(x, y, **bounds)
    assert Tensor(np.array(x)).allclose(np.array(y), **bounds) == wanted
    assert bool(ops.isclose(np.array(x), np.array(y), **bounds).all()) == wanted


@pytest.mark.parametrize("decimals", [-2, -1, 0, 1, 2])
def test_numbers_are_rounded_to_any_number_of_decimals(decimals: int) -> None:
    given = np.array([1234.5678, -1234.5678, 50.0, 150.0, 0.5, 1.5])
    np.testing.assert_allclose(Tensor(given).round(decimals).asnumpy(), np.round(given, decimals), rtol=1e-12)


@pytest.mark.parametrize(
    ("bounds", "wanted"),
    [
        ({"xmin": 1.0}, [1.0, 1.5, 3.0]),
        ({"xmax": 2.0}, [0.0, 1.5, 2.0]),
        ({"min": 1.0, "max": 2.0}, [1.0, 1.5, 2.0]),
        ({"min": 0.0}, [0.0, 1.5, 3.0]),
        ({"max": 0.0}, [0.0, 0.0, 0.0]),
    ],
)
def test_bounds_go_by_either_name(bounds: dict[str, float], wanted: list[float]) -> None:
    assert Tensor(np.array([0.0, 1.5, 3.0])).clip(**bounds).tolist() == wanted


def test_a_bound_of_another_name_is_refused_by_it() -> None:
    with pytest.raises(ConfigurationError, match=r"Tensor\.clip: min, least are not all among min and max"):
        Tensor([1.0]).clip(min=0.0, least=1.0)


class Cloned(nn.Cell):
    """The clone of its input."""

    def construct(self, x: Tensor) -> Tensor:
        return x.clone()


def test_a_clone_has_memory_of_its_own_and_the_same_elements() -> None:
    given = Tensor(np.array([1.0, 2.0]))
    for clone in (given.clone(), Cloned()(given)):
        clone[0] = 5.0
        assert (given.tolist(), clone.tolist()) == ([1.0, 2.0], [5.0, 2.0])


def test_nothing_is_said_of_a_copy_that_nobody_declined(remarks: Any) -> None:
    Tensor([1.0]).astype(np.float64)
    assert remarks() == []
    Tensor([1.0]).astype(np.float64, copy=False)
    assert [line[:30] for line in remarks()] == ["Tensor.astype: copy=False has "]


def test_a_method_keeps_its_name_and_its_words() -> None:
    assert Tensor.sum.__name__ == "sum"
    assert (Tensor.sum.__doc__ or "").startswith("Return the sum over dims")
    assert Tensor.max.__qualname__.endswith(".max")
