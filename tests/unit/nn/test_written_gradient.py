"""Cells with a ``bprop`` of their own: it is the gradient, whatever it says, however the network is cut."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.context import GRAPH_MODE, PYNATIVE_MODE
from mpiparallel.errors import GradientError

X = np.random.default_rng(0).normal(size=(4, 8))
Y = np.random.default_rng(1).normal(size=(4, 8))
W = np.random.default_rng(2).normal(size=(8, 8))


class Hundred(nn.Cell):
    """The gradient is 100, and not 2."""

    def construct(self, x):
        return x * 2

    def bprop(self, x, out, dout):
        return (dout * 100,)


class Alone(Hundred):
    def bprop(self, x, out, dout):
        return dout * 100


class Constant(Hundred):
    def bprop(self, x, out, dout):
        return (ms.Tensor(np.full((4, 8), 100.0)),)


class Clipped(nn.Cell):
    """It uses what it was given and what it has returned."""

    def construct(self, x):
        return ops.Tanh()(x)

    def bprop(self, x, out, dout):
        return (ops.clip_by_value(dout * x, -0.5, 0.5) + out,)


class Reversed(nn.Cell):
    """It returns what it is given."""

    def construct(self, x):
        return x

    def bprop(self, x, out, dout):
        return (-dout,)


class Weighted(nn.Cell):
    """Its parameter gets no gradient, as in MindSpore, but can be used in that of the input."""

    def __init__(self):
        super().__init__()
        self.weight = ms.Parameter(W[0], name="weight")

    def construct(self, x):
        return x * self.weight

    def bprop(self, x, out, dout):
        return (dout * self.weight * 7,)


class Nested(nn.Cell):
    """A cell in a cell, each with its own."""

    def __init__(self, inner=Clipped):
        super().__init__()
        self.inner = inner()

    def construct(self, x):
        return self.inner(x * 3) * 5

    def bprop(self, x, out, dout):
        return (ms.grad(self.inner)(x) * dout,)


class Around(nn.Cell):
    """A cell in one that has none."""

    def __init__(self):
        super().__init__()
        self.inner = Hundred()

    def construct(self, x):
        return self.inner(x * 3) + x


ONE = {
    Hundred: lambda: np.full_like(X, 100),
    Alone: lambda: np.full_like(X, 100),
    Constant: lambda: np.full_like(X, 100),
    Clipped: lambda: np.clip(X, -0.5, 0.5) + np.tanh(X),
    Reversed: lambda: -np.ones_like(X),
    Weighted: lambda: np.broadcast_to(7 * W[0], X.shape),
    Nested: lambda: np.clip(X, -0.5, 0.5) + np.tanh(X),
    Around: lambda: np.full_like(X, 301),
}
"""The gradient of the sum of what a cell of one input returns."""


def by_grad(cell):
    return ms.grad(cell)(ms.Tensor(X))


def by_value_and_grad(cell):
    value, gradient = ms.value_and_grad(lambda x: cell(x).sum())(ms.Tensor(X))
    assert float(value) == pytest.approx(float(cell(ms.Tensor(X)).sum()))
    return gradient


def by_grad_operation(cell):
    ones = ms.Tensor(np.ones_like(X))
    return ops.GradOperation(get_all=True, sens_param=True)(cell)(ms.Tensor(X), ones)[0]


def by_a_step(cell):
    """Return by how much a parameter descends that the cell is given."""
    place = ms.Parameter(X, name="place")

    class Given(nn.Cell):
        def __init__(self):
            super().__init__()
            self.cell, self.place = cell, place

        def construct(self):
            return self.cell(self.place + 0.0).sum()

    network = Given()
    nn.TrainOneStepCell(network, nn.SGD([place], 1.0)).set_train()()
    return ms.Tensor(X - place.asnumpy())


@pytest.mark.parametrize("mode", [GRAPH_MODE, PYNATIVE_MODE])
@pytest.mark.parametrize("recomputed", [False, True])
@pytest.mark.parametrize("way", [by_grad, by_value_and_grad, by_grad_operation, by_a_step])
@pytest.mark.parametrize("kind", ONE)
def test_the_gradient_of_a_cell_is_what_its_bprop_says(kind, way, recomputed, mode) -> None:
    ms.set_context(mode=mode)
    cell = kind()
    if recomputed:
        cell.recompute()
    np.testing.assert_allclose(way(cell).asnumpy(), ONE[kind](), rtol=1e-9, atol=1e-12)


class Product(nn.Cell):
    """Two inputs and two outputs."""

    def construct(self, x, y):
        return x * y, x + y

    def bprop(self, x, y, out, dout):
        return dout[0] * y * 100 + out[0], dout[1] * 7


class Pair(nn.Cell):
    """A tuple, a number, a text and nothing among the inputs."""

    def construct(self, pair, factor, name, mask):
        return pair[0] * pair[1] * factor

    def bprop(self, pair, factor, name, mask, out, dout):
        assert (factor, name, mask) == (3, "sum", None)
        return (dout * 9, dout * pair[0] * factor), 0, None, None


class WithPair(nn.Cell):
    def __init__(self):
        super().__init__()
        self.pair = Pair()

    def construct(self, x, y):
        return self.pair((x, y), 3, "sum", None)


class Unused(nn.Cell):
    """No gradient for the second input, and an output that nothing depends on."""

    def construct(self, x, y):
        return x * y, y

    def bprop(self, x, y, out, dout):
        return dout[0] + dout[1], None


class WithUnused(nn.Cell):
    def __init__(self):
        super().__init__()
        self.unused = Unused()

    def construct(self, x, y):
        return self.unused(x, y)[0] * 2


TWO = {
    Product: lambda: (100 * Y + X * Y, np.full_like(X, 7)),
    WithPair: lambda: (np.full_like(X, 9), 3 * X),
    WithUnused: lambda: (np.full_like(X, 2), np.zeros_like(X)),
}


@pytest.mark.parametrize("mode", [GRAPH_MODE, PYNATIVE_MODE])
@pytest.mark.parametrize("kind", TWO)
def test_a_bprop_may_have_several_inputs_and_outputs_and_some_that_are_no_tensors(kind, mode) -> None:
    ms.set_context(mode=mode)
    gradients = ms.grad(kind(), (0, 1))(ms.Tensor(X), ms.Tensor(Y))
    for gradient, wanted in zip(gradients, TWO[kind](), strict=True):
        np.testing.assert_allclose(gradient.asnumpy(), wanted, rtol=1e-12)


def test_what_a_bprop_gives_no_gradient_has_gradient_zero_as_in_mindspore() -> None:
    cell = Weighted()
    (gradient,) = ms.grad(cell, None, cell.trainable_params())(ms.Tensor(X))
    assert not gradient.asnumpy().any()


def test_a_cell_in_half_precision_has_its_own_gradient_too() -> None:
    gradient = ms.grad(Weighted().to_float("float16"))(ms.Tensor(X)).asnumpy()
    assert gradient.dtype == np.float64
    np.testing.assert_allclose(gradient, ONE[Weighted](), rtol=2e-3)


class Cut(nn.Cell):
    """A product, cut in several ways, in a cell with a gradient of its own, between others."""

    def __init__(self, cuts):
        super().__init__()
        self.weight = ms.Parameter(W, name="weight")
        self.first, self.inside, self.last = ops.MatMul(), ops.MatMul(), ops.Mul()
        if cuts is not None:
            self.first.shard(cuts[0])
            self.inside.shard(cuts[1])
            self.last.shard(cuts[2])
        self.written = Written(self.inside, self.weight)

    def construct(self, x, y):
        return self.last(self.written(self.first(x, self.weight)), y)


class Written(nn.Cell):
    def __init__(self, product, weight):
        super().__init__()
        self.product, self.weight = product, weight

    def construct(self, x):
        return self.product(x, self.weight)

    def bprop(self, x, out, dout):
        return (ops.matmul(dout, self.weight) * 2 + x * out,)


def cut_gradient(_communicator, cuts, mode):
    settings = {"full_batch": True} if mode == "semi_auto_parallel" else {}
    ms.set_auto_parallel_context(parallel_mode=mode, **settings)
    cell = Cut(cuts)
    by_x, by_weight = ms.grad(lambda x, y: cell(x, y).sum(), 0, cell.weight)(ms.Tensor(X), ms.Tensor(Y))
    return by_x.asnumpy(), by_weight.asnumpy()


CUTS = (
    (1, None),
    (2, None),
    (2, (((2, 1), (1, 1)), ((2, 1), (1, 1)), ((2, 1), (2, 1)))),
    (4, (((2, 2), (2, 1)), ((2, 2), (2, 1)), ((1, 4), (1, 4)))),
    (4, (((4, 1), (1, 1)), ((1, 1), (1, 1)), ((1, 2), (1, 2)))),
    (8, (((4, 2), (2, 1)), ((4, 2), (2, 1)), ((2, 4), (2, 4)))),
    (3, (((1, 1), (1, 3)), ((1, 1), (1, 3)), ((1, 3), (1, 3)))),
)


@pytest.mark.parametrize(("ranks", "cuts"), CUTS)
def test_under_every_cut_it_is_that_of_one_rank(ranks, cuts) -> None:
    inside = X @ W
    by_inside = 2 * Y @ W + inside * (inside @ W)
    for by_x, by_weight in run_world(ranks, cut_gradient, cuts, "semi_auto_parallel"):
        np.testing.assert_allclose(by_x, by_inside @ W.T, rtol=1e-10)
        np.testing.assert_allclose(by_weight, X.T @ by_inside, rtol=1e-10)


def test_where_ranks_have_batches_of_their_own_it_is_summed_like_any_other() -> None:
    inside = X @ W
    by_inside = 2 * Y @ W + inside * (inside @ W)
    for by_x, by_weight in run_world(3, cut_gradient, None, "data_parallel"):
        np.testing.assert_allclose(by_x, by_inside @ W.T, rtol=1e-10)
        np.testing.assert_allclose(by_weight, 3 * X.T @ by_inside, rtol=1e-10)


def failing(returned, inputs=1):
    class Failing(nn.Cell):
        def construct(self, *given):
            return given[0] * 2

        def bprop(self, *given):
            return returned(*given)

    return Failing(), [ms.Tensor(X)] * inputs


@pytest.mark.parametrize(
    ("returned", "inputs", "said"),
    [
        (lambda x, out, dout: (dout, dout), 1, "2 gradients for the 1 inputs of construct; return a tuple of one for"),
        (lambda x, y, out, dout: (dout,), 2, "1 gradient for the 2 inputs of construct"),
        (lambda x, out, dout: (), 1, "0 gradients for the 1 inputs of construct"),
        (lambda x, y, out, dout: dout, 2, "a Tensor for the 2 inputs of construct"),
        (lambda x, out, dout: None, 1, "a NoneType for the 1 inputs of construct"),
        (
            lambda x, out, dout: (dout.sum(),),
            1,
            r"input 0 has shape \(\), but the input has \(4, 8\); return one of its",
        ),
        (lambda x, y, out, dout: (dout, dout[0]), 2, r"input 1 has shape \(8,\), but the input has \(4, 8\)"),
    ],
)
def test_gradients_that_do_not_fit_the_inputs_are_an_error_that_names_the_cell(returned, inputs, said) -> None:
    cell, given = failing(returned, inputs)
    with pytest.raises(GradientError, match=rf"^Failing\.bprop.*{said}"):
        ms.grad(cell)(*given)


def test_a_cell_that_returns_no_tensor_has_no_use_for_its_gradient() -> None:
    class Three(nn.Cell):
        def construct(self, x):
            return 3

        def bprop(self, x, out, dout):
            raise AssertionError

    inner = Three()
    found = ms.grad(lambda x: (x * inner(x)).sum())(ms.Tensor(X))
    np.testing.assert_array_equal(found.asnumpy(), np.full(X.shape, 3))
