"""How cells and gradients are called: arguments by name, defaults, constants, and what changes between calls."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.context import GRAPH_MODE, PYNATIVE_MODE
from mpiparallel.errors import GradientError, TraceError
from mpiparallel.ops.just_in_time import jit

MODES = pytest.mark.parametrize("mode", [GRAPH_MODE, PYNATIVE_MODE])
X, M = np.array([1.0, 2.0], np.float32), np.array([1.0, 0.0], np.float32)


class Network(nn.Cell):
    def construct(self, x, scale=2, mask=None, *rest, flag=True):
        y = x * scale
        if mask is not None:
            y = y * mask
        if flag:
            y = y + 1
        for one in rest:
            y = y + one
        return y


x, m = ms.Tensor(X), ms.Tensor(M)
CALLS = {
    "default": (lambda net: net(x), X * 2 + 1),
    "tensor by name": (lambda net: net(x, mask=m), X * 2 * M + 1),
    "number by name": (lambda net: net(x, scale=5), X * 5 + 1),
    "only by name": (lambda net: net(x, flag=False), X * 2),
    "both": (lambda net: net(x, flag=False, mask=m, scale=3), X * 3 * M),
    "rest": (lambda net: net(x, 3, None, m, m), X * 3 + 1 + 2 * M),
    "all by name": (lambda net: net(mask=m, x=x), X * 2 * M + 1),
    "gradient": (lambda net: ms.grad(net)(x, mask=m), 2 * M),
    "of value_and_grad": (lambda net: ms.value_and_grad(net)(x, scale=4, flag=False)[1], np.full(2, 4)),
    "of GradOperation": (lambda net: ops.GradOperation()(net)(x, mask=m), 2 * M),
    "sens by name": (lambda net: ms.grad(net, sens_param=True)(x, sens=m), 2 * M),
    "sens by place": (lambda net: ms.grad(net, sens_param=True)(x, 3, m), 3 * M),
}


@MODES
@pytest.mark.parametrize("name", CALLS)
def test_arguments_may_be_given_by_name_or_left_out(name, mode) -> None:
    ms.set_context(mode=mode)
    call, wanted = CALLS[name]
    np.testing.assert_allclose(call(Network()).asnumpy(), wanted)


@MODES
def test_a_cell_in_a_cell_takes_them_too(mode) -> None:
    ms.set_context(mode=mode)

    class Outer(nn.Cell):
        def __init__(self):
            super().__init__()
            self.inner = Network()

        def construct(self, x, mask):
            return self.inner(x, mask=mask, flag=False)

    np.testing.assert_allclose(Outer()(x, m).asnumpy(), X * 2 * M)
    np.testing.assert_allclose(ms.grad(Outer())(x, mask=m).asnumpy(), 2 * M)


@MODES
def test_what_construct_does_not_take_is_a_type_error_that_names_the_cell(mode) -> None:
    ms.set_context(mode=mode)
    with pytest.raises(TraceError, match=r"Network\.construct: got an unexpected keyword argument 'masc'"):
        Network()(x, masc=m)
    with pytest.raises(TypeError, match=r"Network\.construct\(\) missing 1 required positional argument: 'x'"):
        Network()()


@MODES
def test_numbers_are_constants_which_keep_the_dtype_of_tensors(mode) -> None:
    ms.set_context(mode=mode)
    cell = Network()
    for dtype, scale in ((np.float16, 2.5), (np.int32, 3), (np.float32, 1), (np.float32, 0.5)):
        given = ms.Tensor(np.ones(2, dtype))
        assert cell(given, scale).asnumpy().dtype == dtype
        np.testing.assert_allclose(cell(given, scale).asnumpy(), np.ones(2) * scale + 1)


@MODES
def test_true_and_one_are_two_constants(mode) -> None:
    ms.set_context(mode=mode)

    class Kind(nn.Cell):
        def construct(self, x, kind):
            return x * (10 if kind is True else 2 if isinstance(kind, int) else 5)

    cell = Kind()
    assert [float(cell(ms.Tensor(1.0), kind)) for kind in (1, True, 1.0, 1, True)] == [2, 10, 5, 2, 10]


@MODES
def test_what_is_returned_may_hold_numbers_texts_and_dicts(mode) -> None:
    ms.set_context(mode=mode)

    class Mixed(nn.Cell):
        def construct(self, x):
            return {"sum": x.sum(), "pair": (x * 2, None)}, 3, "name"

    found, number, text = Mixed()(x)
    assert (number, text, found["pair"][1]) == (3, "name", None)
    assert float(found["sum"]) == 3.0
    np.testing.assert_allclose(found["pair"][0].asnumpy(), X * 2)


def test_flags_that_a_cell_is_made_with_are_set() -> None:
    cell = nn.Cell(flags={"fast": True, "fp16": True})
    assert cell.fast is True
    assert nn.Dense(2, 2).add_flags(fp16=True).precision == cell.precision
    assert cell.precision is not None
    assert cell.precision.dtype == np.float16


WAYS = {
    "call": lambda net: net,
    "grad": lambda net: ms.grad(net),
    "function": lambda net: ms.grad(lambda x: net(x) * 1),
    "GradOperation": lambda net: ops.GradOperation()(net),
    "jit": lambda net: jit(lambda x: net(x)),
}


@MODES
@pytest.mark.parametrize("way", WAYS)
def test_a_network_that_is_set_to_train_or_not_is_so_wherever_it_is_called(way, mode) -> None:
    ms.set_context(mode=mode)
    network = nn.SequentialCell([nn.Dropout(p=0.5)])
    call, ones = WAYS[way](network), ms.Tensor(np.ones(50, np.float32))
    for training in (True, False, True, False):
        network.set_train(training)
        assert bool((call(ones).asnumpy() == 1).all()) is not training


class Weighted(nn.Cell):
    def __init__(self):
        super().__init__()
        self.weight = ms.Parameter(np.array([3.0, 4.0], np.float32), name="weight")

    def construct(self, x, y):
        return x * self.weight * y, x


@MODES
def test_gradients_come_with_positions_and_names_where_they_are_asked_for(mode) -> None:
    ms.set_context(mode=mode)
    cell = Weighted()
    weights = cell.trainable_params()
    ((place, by_x), (other, by_y)), ((name, by_weight),) = ms.grad(cell, (0, 1), weights, return_ids=True)(x, m)
    assert (place, other, name) == (0, 1, "weight")
    np.testing.assert_allclose(by_x.asnumpy(), [3 * 1 + 1, 1])
    np.testing.assert_allclose(by_y.asnumpy(), X * [3, 4])
    np.testing.assert_allclose(by_weight.asnumpy(), X * M)
    np.testing.assert_allclose(ms.grad(cell, (1,))(x, m).asnumpy(), X * [3, 4])
    assert ms.value_and_grad(cell, None, cell.weight, return_ids=True)(x, m)[1][0] == "weight"
    np.testing.assert_allclose(ms.grad(cell, sens_param=True)(x, m, (m, m)).asnumpy(), [4, 0])


@MODES
def test_grad_operation_takes_the_parameters_of_the_cell_where_none_are_given(mode) -> None:
    ms.set_context(mode=mode)
    (gradient,) = ops.GradOperation(get_by_list=True)(Weighted())(x, m)
    np.testing.assert_allclose(gradient.asnumpy(), X * M)


@MODES
def test_the_gradient_by_a_tensor_that_is_made_in_the_network_is_not_nothing(mode) -> None:
    ms.set_context(mode=mode)

    class Inside(nn.Cell):
        def construct(self, x):
            return x * ops.grad(lambda t: t * t)(ms.Tensor([5.0, 6.0]))

    np.testing.assert_allclose(Inside()(x).asnumpy(), X * [10, 12])


@MODES
@pytest.mark.parametrize(
    ("take", "said"),
    [
        (lambda: ms.grad(lambda t: t.sum(), 3)(x), "grad_position 3: there are 1 inputs by place"),
        (lambda: ms.grad(lambda t: t[0], 0)((x, m)), "grad_position 0: the input is a tuple, by which there is no"),
        (lambda: ms.grad(lambda t: t.sum(), has_aux=True)(x), "has_aux=True: the function must return a tuple"),
        (lambda: ms.value_and_grad(lambda t: (t.sum(),), has_aux=True)(x), "has_aux=True: the function must return"),
        (lambda: ms.grad(lambda: x.sum(), None, Weighted().weight, sens_param=True)(), "sens_param=True: give the"),
        (
            lambda: ms.grad(lambda t: t, sens_param=True)(x, 2.0),
            r"sens of shape \(\) must have the shape of the output",
        ),
        (lambda: ms.grad(lambda t: (t, t), sens_param=True)(x, (x,)), "must have the shape of the output"),
    ],
)
def test_what_has_no_gradient_is_refused(take, said, mode) -> None:
    ms.set_context(mode=mode)
    with pytest.raises(GradientError, match=said):
        take()


def test_what_is_neither_tensor_nor_constant_is_refused_by_its_type() -> None:
    with pytest.raises(TraceError, match="a set stands where tensors, or tuples of them, are expected"):
        Network()(x, mask={1.0})
