"""Functions made of operators: activations, losses, methods of tensors by name; values, gradients, cuts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.tensor import Tensor

GENERATOR = np.random.default_rng(7)
X = GENERATOR.normal(scale=3.0, size=(4, 6))
Y = GENERATOR.uniform(0.05, 0.95, size=(4, 6))
CLASSES = np.array([[1, 2], [0, 1], [2, 2], [0, 0]], np.int32)
WEIGHT = np.array([0.5, 2.0, 1.0])
SIGMOID = 1 / (1 + np.exp(-X))
SOFTPLUS = np.log1p(np.exp(X))
D = abs(X - Y)
GAPS = np.array([1.0, np.nan])

ELEMENTWISE: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "silu": (ops.silu, X * SIGMOID),
    "leaky_relu": (ops.leaky_relu, np.where(X > 0, X, 0.2 * X)),
    "prelu": (lambda x: ops.prelu(x, np.array([0.5])), np.where(X > 0, X, 0.5 * X)),
    "prelu of channels": (lambda x: ops.prelu(x, np.arange(6.0)), np.where(X > 0, X, np.arange(6.0) * X)),
    "relu6": (ops.relu6, X.clip(0, 6)),
    "elu": (lambda x: ops.elu(x, 0.5), np.where(X > 0, X, 0.5 * (np.exp(X) - 1))),
    "softplus": (ops.softplus, SOFTPLUS),
    "softplus of beta": (lambda x: ops.softplus(x, 2.0), np.log1p(np.exp(2 * X)) / 2),
    "softplus up to a threshold": (
        lambda x: ops.softplus(x, 2.0, 1.0),
        np.where(2 * X > 1, X, np.log1p(np.exp(2 * X)) / 2),
    ),
    "logsigmoid": (ops.logsigmoid, np.log(SIGMOID)),
    "mish": (ops.mish, X * np.tanh(SOFTPLUS)),
    "hardsigmoid": (ops.hardsigmoid, (X + 3).clip(0, 6) / 6),
    "hardswish": (ops.hardswish, X * (X + 3).clip(0, 6) / 6),
    "softsign": (ops.softsign, X / (1 + abs(X))),
    "mse_loss": (lambda x: ops.mse_loss(x, Y, "none"), (X - Y) ** 2),
    "l1_loss": (lambda x: ops.l1_loss(x, Y, "none"), D),
    "smooth_l1_loss": (lambda x: ops.smooth_l1_loss(x, Y, 2.0), np.where(D < 2, D * D / 4, D - 1)),
    "huber_loss": (lambda x: ops.huber_loss(x, Y, "none", 2.0), np.where(D < 2, D * D / 2, 2 * D - 2)),
    "kl_div": (lambda x: ops.kl_div(x, Y, "none"), Y * (np.log(Y) - X)),
    "binary_cross_entropy": (
        lambda x: ops.binary_cross_entropy(x.sigmoid(), Y, 2.0, "none"),
        -2 * (Y * np.log(SIGMOID) + (1 - Y) * np.log(1 - SIGMOID)),
    ),
    "binary_cross_entropy_with_logits": (
        lambda x: ops.binary_cross_entropy_with_logits(x, Y, None, np.arange(6.0), "none"),
        -(np.arange(6.0) * Y * np.log(SIGMOID) + (1 - Y) * np.log(1 - SIGMOID)),
    ),
    "lerp": (lambda x: ops.lerp(x, Y, 0.25), 0.75 * X + 0.25 * Y),
    "var": (lambda x: ops.var(x, 1, 1, True) + 0 * x, X.var(1, ddof=1, keepdims=True) + 0 * X),
    "logsumexp": (lambda x: ops.logsumexp(x, 1, True) + 0 * x, np.log(np.exp(X).sum(1, keepdims=True)) + 0 * X),
    "norm": (lambda x: ops.norm(x, None, 1, True) + 0 * x, np.linalg.norm(X, axis=1, keepdims=True) + 0 * X),
}


class Net(nn.Cell):
    """A function of a weight, and the sum of what it gives, weighted."""

    def __init__(self, function: Callable[[Any], Any], cut: tuple[int, int]) -> None:
        super().__init__()
        self.w = ms.Parameter(X, "w")
        self.laid = ops.Identity().shard((cut,))
        self.function = function

    def construct(self, weights: Any) -> Any:
        y = self.function(self.laid(self.w))
        return (y * weights).sum(), y


def run(communicator: Any, name: str, cut: tuple[int, int]) -> Any:
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    network = Net(ELEMENTWISE[name][0], cut)
    (_, y), gradient = ops.value_and_grad(network, None, network.w, has_aux=True)(Tensor(Y))
    return y.asnumpy(), gradient.asnumpy()


def numeric(name: str) -> Any:
    """Return the gradient of the weighted sum, by differences of what one rank computes."""
    function, gradient = ELEMENTWISE[name][0], np.zeros_like(X)
    for place in np.ndindex(X.shape):
        for step in (1e-6, -1e-6):
            moved = X.copy()
            moved[place] += step
            gradient[place] += float((function(Tensor(moved)) * Y).sum()) / (2 * step)
    return gradient


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_values_and_gradients_are_those_of_the_formula_under_every_cut(name: str) -> None:
    gradient = numeric(name)
    for ranks, cut in [(1, (1, 1)), (2, (2, 1)), (2, (1, 2)), (4, (2, 2)), (3, (1, 3))]:
        for y, found in run_world(ranks, run, name, cut):
            np.testing.assert_allclose(y, ELEMENTWISE[name][1], rtol=1e-9, atol=1e-12, err_msg=str(cut))
            np.testing.assert_allclose(found, gradient, rtol=1e-5, atol=1e-7, err_msg=str(cut))


@pytest.mark.parametrize("name", ["elu", "softplus", "logsigmoid", "mish", "silu"])
def test_large_numbers_give_numbers_and_gradients(name: str) -> None:
    function = ELEMENTWISE[name][0]
    for large in (-90.0, 90.0):
        value, gradient = ops.value_and_grad(lambda x: function(x).sum())(Tensor(np.float32([large])))
        assert np.isfinite(value.asnumpy())
        assert np.isfinite(gradient.asnumpy()).all()


LOGITS = np.array(
    [
        [[0.12573022, -0.13210486], [0.64042264, 0.10490011], [-0.53566939, 0.36159506]],
        [[1.30400002, 0.94708097], [-0.70373524, -1.26542151], [-0.62327445, 0.04132598]],
        [[-2.32503080, -0.21879166], [-1.24591088, -0.73226738], [-0.54425901, -0.31630015]],
        [[0.41163054, 1.04251337], [-0.12853466, 1.36646342], [-0.66519469, 0.35151008]],
    ],
    np.float32,
)


def softmax_logarithms(x: Any) -> Any:
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def entropies(x: Any, classes: Any, weight: Any, smoothing: float) -> tuple[Any, Any]:
    """Return the loss of each row, and the weight by which the mean counts it; of rows to be ignored both are 0."""
    logarithms, taken = softmax_logarithms(x), classes != -100
    losses, weights = np.zeros(classes.shape), np.zeros(classes.shape)
    for place in zip(*np.nonzero(taken), strict=True):
        row = logarithms[(place[0], slice(None), *place[1:])]
        own = weight[classes[place]]
        losses[place] = -(1 - smoothing) * own * row[classes[place]] - smoothing * (weight * row).sum() / len(row)
        weights[place] = own
    return losses, weights


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("ignored", [None, (1, 1)])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_is_that_of_the_formula(smoothing: float, weight: Any, ignored: Any, reduction: str) -> None:
    classes = CLASSES.copy()
    if ignored:
        classes[ignored] = -100
    losses, weights = entropies(LOGITS.astype(float), classes, np.ones(3) if weight is None else weight, smoothing)
    wanted = {"mean": losses.sum() / weights.sum(), "sum": losses.sum(), "none": losses}[reduction]
    given = (None if weight is None else Tensor(weight), -100, reduction, smoothing)
    for found in (
        ops.cross_entropy(LOGITS.astype(float), classes, *given),
        nn.CrossEntropyLoss(*given)(Tensor(LOGITS.astype(float)), Tensor(classes)),
    ):
        np.testing.assert_allclose(found.asnumpy(), wanted, rtol=1e-6, atol=1e-9)


def test_cross_entropy_with_shares_is_the_mean_of_the_rows() -> None:
    shares = np.abs(GENERATOR.normal(size=(4, 3)))
    logarithms = softmax_logarithms(LOGITS[..., 0].astype(float))
    smoothed = shares * 0.9 + 0.1 / 3
    wanted = -(logarithms * smoothed * WEIGHT).sum(1)
    found = ops.cross_entropy(LOGITS[..., 0].astype(float), shares, WEIGHT, label_smoothing=0.1)
    np.testing.assert_allclose(float(found), wanted.mean(), rtol=1e-6)


def test_probabilities_of_0_and_1_have_finite_losses() -> None:
    losses = ops.binary_cross_entropy(np.float32([0, 1, 1]), np.float32([1, 1, 0]), reduction="none").asnumpy()
    assert np.isfinite(losses).all()
    assert losses[1] == 0
    assert (losses[[0, 2]] > 80).all()
    assert ops.binary_cross_entropy(np.zeros(1), np.ones(1)).asnumpy() == pytest.approx(100.0)
    assert float(ops.kl_div(np.zeros((2, 2)), np.array([[0.0, 1.0], [1.0, 0.0]]), "batchmean")) == 0.0


NAMED: list[tuple[Callable[[], Any], Any]] = [
    (lambda: ops.sum(X, 0, keepdim=True), X.sum(0, keepdims=True)),
    (lambda: ops.prod(Y, 1), Y.prod(1)),
    (lambda: ops.all(X > 0, 1), (X > 0).all(1)),
    (lambda: ops.any(X > 0), (X > 0).any()),
    (lambda: ops.amax(X, 1), X.max(1)),
    (lambda: ops.amin(X), X.min()),
    (lambda: ops.max(X, 1)[0], X.max(1)),
    (lambda: ops.max(X, 1, True)[1], X.argmax(1)[:, None]),
    (lambda: ops.min(X)[1], X.argmin()),
    (lambda: ops.std(X, 0), X.std(0)),
    (lambda: ops.permute(X, (1, 0)), X.T),
    (lambda: ops.swapaxes(X, 0, 1), X.T),
    (lambda: ops.moveaxis(X, 0, 1), X.T),
    (lambda: ops.unsqueeze(X, -1), X[..., None]),
    (lambda: ops.expand(X[:, :1], (-1, 3)), np.broadcast_to(X[:, :1], (4, 3))),
    (lambda: ops.unbind(X)[1], X[1]),
    (lambda: ops.narrow(X, 1, 2, 3), X[:, 2:5]),
    (lambda: ops.chunk(X, 4, 1)[1], X[:, 2:4]),
    (lambda: ops.split(X, 4, 1)[1], X[:, 4:]),
    (lambda: ops.split(X, (1, 3))[1], X[1:]),
    (lambda: ops.index_select(X, 1, np.array([4, 0])), X[:, [4, 0]]),
    (lambda: ops.clamp(X, -1, 1), X.clip(-1, 1)),
    (lambda: ops.clip(X, max=1), X.clip(None, 1)),
    (lambda: ops.isnan(X), np.isnan(X)),
    (lambda: ops.isfinite(X), np.isfinite(X)),
    (lambda: ops.isclose(X, X + 1e-9), np.ones(X.shape)),
    (lambda: ops.isclose(GAPS, GAPS), ~np.isnan(GAPS)),
    (lambda: ops.isclose(GAPS, GAPS, equal_nan=True), np.ones(2)),
    (lambda: ops.div(X, Y, rounding_mode="floor"), np.floor(X / Y)),
    (lambda: ops.div(X, Y, rounding_mode="trunc"), np.trunc(X / Y)),
    (lambda: ops.div(np.array([-7, 7]), 2, rounding_mode="trunc"), np.array([-3, 3])),
    (lambda: ops.norm(np.float16([300, 400]), dtype=np.float32), np.float32(500)),
    (
        lambda: nn.BCEWithLogitsLoss("none", Tensor(Y), Tensor(np.full(6, 3.0)))(Tensor(X), Tensor(Y)),
        -Y * (3 * Y * np.log(SIGMOID) + (1 - Y) * np.log(1 - SIGMOID)),
    ),
    (lambda: ops.logical_xor(X > 0, X > 1), (X > 0) ^ (X > 1)),
    (lambda: ops.mm(X, Y.T), X @ Y.T),
    (lambda: ops.bmm(X[None], Y.T[None]), (X @ Y.T)[None]),
    (lambda: ops.addmm(X[:, :4], X, Y.T, beta=2, alpha=3), 2 * X[:, :4] + 3 * X @ Y.T),
    (lambda: ops.dense(X[None], Y, Y[:, 0]), (X @ Y.T + Y[:, 0])[None]),
    (lambda: ops.cat([X, Y]), np.concatenate([X, Y])),
    (lambda: ops.true_divide(X, ops.multiply(Y, 2)), X / Y / 2),
    (lambda: ops.subtract(X, ops.floor_divide(X, 2)), X - X // 2),
]


@pytest.mark.parametrize(("call", "wanted"), NAMED)
def test_a_function_is_the_method_of_its_name(call: Callable[[], Any], wanted: Any) -> None:
    np.testing.assert_allclose(call().asnumpy(), wanted, rtol=1e-12)


CELLS: dict[str, tuple[nn.Cell, str]] = {
    "LeakyReLU": (nn.LeakyReLU(), "leaky_relu"),
    "PReLU": (nn.PReLU(1, 0.5), "prelu"),
    "ELU": (nn.ELU(0.5), "elu"),
    "ReLU6": (nn.ReLU6(), "relu6"),
    "SiLU": (nn.SiLU(), "silu"),
    "Mish": (nn.Mish(), "mish"),
    "LogSigmoid": (nn.LogSigmoid(), "logsigmoid"),
    "Softsign": (nn.Softsign(), "softsign"),
    "HSigmoid": (nn.HSigmoid(), "hardsigmoid"),
    "HSwish": (nn.HSwish(), "hardswish"),
}


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_is_the_function(name: str) -> None:
    cell, function = CELLS[name]
    np.testing.assert_allclose(cell(Tensor(X)).asnumpy(), ELEMENTWISE[function][1], rtol=1e-6)
    if name != "Softsign":
        assert type(nn.get_activation(name.lower())) is type(cell)


@pytest.mark.parametrize(
    ("loss", "name", "reduction"),
    [
        (nn.SmoothL1Loss(2.0), "smooth_l1_loss", np.asarray),
        (nn.HuberLoss(delta=2.0), "huber_loss", np.mean),
        (nn.HuberLoss("sum", 2.0), "huber_loss", np.sum),
        (nn.KLDivLoss("none"), "kl_div", np.asarray),
        (nn.MAELoss(), "l1_loss", np.mean),
        (nn.RMSELoss(), "mse_loss", lambda losses: np.sqrt(losses.mean())),
    ],
)
def test_a_loss_is_the_function(loss: nn.Cell, name: str, reduction: Callable[[Any], Any]) -> None:
    np.testing.assert_allclose(loss(Tensor(X), Tensor(Y)).asnumpy(), reduction(ELEMENTWISE[name][1]), rtol=1e-9)


def test_a_loss_of_probabilities_and_one_of_logarithms() -> None:
    shares = np.exp(softmax_logarithms(LOGITS[..., 0].astype(float)))
    classes = CLASSES[:, 0]
    wanted = -np.log(shares[range(4), classes]).mean()
    np.testing.assert_allclose(float(nn.NLLLoss()(Tensor(np.log(shares)), Tensor(classes))), wanted, rtol=1e-6)
    found = float(nn.BCELoss(reduction="sum")(Tensor(SIGMOID), Tensor(Y)))
    np.testing.assert_allclose(found, ELEMENTWISE["binary_cross_entropy"][1].sum() / 2, rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: ops.max(X, keepdims=True)[0], "ops.max: keepdims=True has no effect here"),
        (lambda: ops.min(X, keepdims=True)[0], "ops.min: keepdims=True has no effect here"),
        (lambda: ops.cross_entropy(X, Y, ignore_index=0), "cross_entropy: ignore_index=0 has no effect here"),
    ],
)
def test_what_means_nothing_beside_the_other_arguments_is_said(
    call: Callable[[], Tensor], line: str, remarks: Callable[[], list[str]]
) -> None:
    assert call().shape == ()
    assert [one[: len(line)] for one in remarks()] == [line]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"target of shape \(3,\) must be \(4, 6\) without its dim 1"):
        ops.cross_entropy(X, np.zeros(3, np.int32))
    with pytest.raises(ConfigurationError, match="mse_loss: reduction 'average' is not one of 'mean', 'sum', 'none'"):
        ops.mse_loss(X, Y, "average")
    with pytest.raises(ConfigurationError, match="give split_size_or_sections, or output_num"):
        ops.split(X)


def test_where_a_dividend_is_zero_neither_it_nor_its_divisor_has_a_gradient() -> None:
    x, y = Tensor(np.array([0.0, 0.0, 2.0])), Tensor(np.array([3.0, -5.0, 4.0]))
    of_x, of_y = ops.grad(lambda x, y: ops.Xdivy()(x, y).sum(), (0, 1))(x, y)
    np.testing.assert_array_equal(of_x.asnumpy(), [0.0, 0.0, 0.25])
    np.testing.assert_array_equal(of_y.asnumpy(), [0.0, 0.0, -0.125])
