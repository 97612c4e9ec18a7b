"""What a gradient is asked of: inputs by place, parameters, a weight of the output; and what is handed out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import Parameter, Tensor, nn, ops
from mpiparallel.errors import GradientError

X, Y = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])


def product(x: Any, y: Any) -> Any:
    return (x * x * y).sum()


OF_X, OF_Y = 2 * X * Y, X * X


def plain(found: Any) -> Any:
    """Return tensors as lists, and tuples as they are nested."""
    if isinstance(found, tuple):
        return tuple(plain(one) for one in found)
    return found.asnumpy().tolist() if isinstance(found, Tensor) else found


@pytest.mark.parametrize(
    ("position", "wanted"),
    [
        (0, OF_X.tolist()),
        (1, OF_Y.tolist()),
        (-1, OF_Y.tolist()),
        (-2, OF_X.tolist()),
        ((0,), OF_X.tolist()),
        ((1, 0), (OF_Y.tolist(), OF_X.tolist())),
    ],
)
def test_a_gradient_is_by_the_inputs_that_are_named(position: Any, wanted: Any) -> None:
    assert plain(ops.grad(product, position)(Tensor(X), Tensor(Y))) == wanted
    value, found = ops.value_and_grad(product, position)(Tensor(X), Tensor(Y))
    assert float(value) == (X * X * Y).sum()
    assert plain(found) == wanted


@pytest.mark.parametrize("position", [2, -3, (0, 2)])
def test_an_input_that_is_not_there_is_refused(position: Any) -> None:
    with pytest.raises(GradientError, match=r"grad_position (2|-3): there are 2 inputs by place, counted from 0"):
        ops.grad(product, position)(Tensor(X), Tensor(Y))


@pytest.mark.parametrize("given", [True, "two", None])
def test_an_input_that_is_no_tensor_has_no_gradient(given: Any) -> None:
    with pytest.raises(GradientError, match=f"grad_position 1: the input is a {type(given).__name__}, by which there"):
        ops.grad(lambda x, flag: x.sum(), 1)(Tensor(X), given)


@pytest.mark.parametrize("given", [2, 2.0, np.float64(2.0), np.array(2.0)])
def test_numbers_and_arrays_have_gradients_as_tensors_do(given: Any) -> None:
    assert float(ops.grad(lambda x, factor: (x * factor).sum(), 1)(Tensor(X), given)) == 6.0


class Scaled(nn.Cell):
    """An input times a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.w = Parameter(np.array([2.0, 2.0, 2.0]), "w")
        self.b = Parameter(np.array([1.0]), "b")

    def construct(self, x: Any) -> Any:
        return (x * self.w + self.b).sum()


def test_a_gradient_by_parameters_is_handed_out_as_they_are_given() -> None:
    cell, ones = Scaled(), [1.0, 1.0, 1.0]
    assert plain(ops.grad(cell, None, cell.w)(Tensor(X))) == X.tolist()
    assert plain(ops.grad(cell, None, [cell.w])(Tensor(X))) == (X.tolist(),)
    assert plain(ops.grad(cell, None, [cell.w, cell.b])(Tensor(X))) == (X.tolist(), [3.0])
    assert plain(ops.grad(cell, 0, cell.b)(Tensor(X))) == ([2.0, 2.0, 2.0], [3.0])
    named = ops.grad(cell, (0,), [cell.w, cell.b], return_ids=True)(Tensor(X))
    assert plain(named) == ((0, [2.0, 2.0, 2.0]), (("w", X.tolist()), ("b", [3.0])))
    assert plain(ops.grad(product, (0, 1), return_ids=True)(Tensor(X), Tensor(np.ones(3)))) == (
        (0, (2 * X).tolist()),
        (1, OF_Y.tolist()),
    )
    assert ones == plain(ops.grad(lambda x: x.sum())(Tensor(X)))


@pytest.mark.parametrize("kind", [tuple, list])
def test_outputs_beside_the_first_are_handed_on_and_not_differentiated(kind: Callable[[Any], Any]) -> None:
    def both(x: Any) -> Any:
        return kind(((x * x).sum(), x * 3.0))

    gradient, others = ops.grad(both, has_aux=True)(Tensor(X))
    assert plain(gradient) == (2 * X).tolist()
    assert plain(tuple(others)) == ((3 * X).tolist(),)
    # Without it all outputs are summed.
    assert plain(ops.grad(both)(Tensor(X))) == (2 * X + 3).tolist()


@pytest.mark.parametrize("returned", [lambda x: x.sum(), lambda x: (x.sum(),)])
def test_other_outputs_that_are_not_there_are_refused(returned: Callable[[Any], Any]) -> None:
    with pytest.raises(GradientError, match="has_aux=True: the function must return a tuple"):
        ops.grad(returned, has_aux=True)(Tensor(X))


@pytest.mark.parametrize("by_name", [False, True])
def test_the_weight_of_the_output_is_the_last_input_or_goes_by_its_name(by_name: bool) -> None:
    weight = Tensor(np.array([1.0, 10.0, 100.0]))
    gradient = ops.grad(lambda x: x * x, sens_param=True)
    found = gradient(Tensor(X), sens=weight) if by_name else gradient(Tensor(X), weight)
    assert plain(found) == [2.0, 40.0, 600.0]
    of_both = ops.grad(lambda x, y: x * y, (0, 1), sens_param=True)
    found = of_both(Tensor(X), Tensor(Y), sens=weight) if by_name else of_both(Tensor(X), Tensor(Y), weight)
    assert plain(found) == ([4.0, 50.0, 600.0], [1.0, 20.0, 300.0])
    older = ops.GradOperation(sens_param=True)(lambda x: x * x)
    assert plain(older(Tensor(X), sens=weight) if by_name else older(Tensor(X), weight)) == [2.0, 40.0, 600.0]


def test_a_weight_of_another_shape_or_none_is_refused() -> None:
    gradient = ops.grad(lambda x: x * x, sens_param=True)
    with pytest.raises(GradientError, match=r"sens of shape \(2,\) must have the shape of the output, \(3,\)"):
        gradient(Tensor(X), Tensor(np.ones(2)))
    with pytest.raises(GradientError, match="sens_param=True: give the gradient of the output as the last input"):
        gradient()
    two = ops.grad(lambda x: (x * x, x.sum()), sens_param=True)
    assert plain(two(Tensor(X), (Tensor(np.ones(3)), Tensor(10.0)))) == (2 * X + 10).tolist()


def test_the_older_way_is_by_the_first_input_by_all_or_by_parameters() -> None:
    cell = Scaled()
    assert plain(ops.GradOperation()(product)(Tensor(X), Tensor(Y))) == OF_X.tolist()
    assert plain(ops.GradOperation(get_all=True)(product)(Tensor(X), Tensor(Y))) == (OF_X.tolist(), OF_Y.tolist())
    assert plain(ops.GradOperation(get_all=True)(lambda x, flag: x.sum())(Tensor(X), True)) == ([1.0, 1.0, 1.0],)
    assert plain(ops.GradOperation(get_by_list=True)(cell)(Tensor(X))) == (X.tolist(), [3.0])
    assert plain(ops.GradOperation(get_by_list=True)(cell, cell.w)(Tensor(X))) == (X.tolist(),)
    assert plain(ops.GradOperation(True, True)(cell, [cell.b])(Tensor(X))) == (([2.0, 2.0, 2.0],), ([3.0],))
    with pytest.raises(GradientError, match=r"get_by_list=True\): give the parameters"):
        ops.GradOperation(get_by_list=True)(product)


class Kept(nn.Cell):
    """The squares of what dropout leaves of an input, times a factor."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)

    def construct(self, x: Any, *, factor: float = 1.0) -> Any:
        return (self.dropout(x) * x).sum() * factor


class ThenGradient(nn.Cell):
    """A loss, its gradient, and that of another call of the same network."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Kept()

    def construct(self, x: Any) -> Any:
        loss = self.inner(x)
        self.inner(x, factor=2.0)
        return loss, ops.grad(self.inner)(x), ops.grad(self.inner)(x, factor=-3.0)


def test_a_gradient_is_that_of_the_loss_which_was_computed_on_the_same_inputs() -> None:
    x = Tensor(np.arange(1.0, 65.0))
    loss, gradient, other = (one.asnumpy() for one in ThenGradient().set_train()(x))
    # Other elements would be dropped if the loss were computed once more. Each that is left is twice as large.
    assert set(gradient / x.asnumpy()) == {0.0, 4.0}
    assert float(loss) == (gradient * x.asnumpy()).sum() / 2
    assert set(other / x.asnumpy()) == {0.0, -12.0}
