"""A weight that one operator cuts and others use without a strategy: as on one rank, and never gathered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.compile.rank_graph import local_graph

X, W = np.random.default_rng(1).normal(size=(8, 6)), np.random.default_rng(2).normal(size=(6, 4))
CUTS = [
    (1, (1, 1, 1)),
    *((ranks, cut) for ranks in (2, 3, 4) for cut in ((ranks, 1, 1), (1, ranks, 1), (1, 1, ranks))),
    (4, (1, 2, 1)),
    (6, (1, 3, 2)),
    (6, (2, 1, 3)),
    (8, (2, 2, 2)),
    (8, (1, 2, 2)),
]

# name: the loss of the product's rows y, x and w, here and in NumPy; whether the weight may stay where it is
USES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "decay": (lambda x, y, w: y.sum() + 0.01 * (w * w).sum(), lambda x, y, w: y.sum() + 0.01 * (w * w).sum()),
    "half norm": (lambda x, y, w: y.sum() + ops.L2Loss()(w), lambda x, y, w: y.sum() + (w * w).sum() / 2),
    "norm": (
        lambda x, y, w: y.mean() + ops.Sqrt()(ops.ReduceSum()(ops.Square()(w))),
        lambda x, y, w: y.mean() + np.sqrt((w * w).sum()),
    ),
    "norms of rows": (
        lambda x, y, w: (ops.Sqrt()(ops.ReduceSum(keep_dims=True)(w * w, 1)) * w).sum() + y.sum(),
        lambda x, y, w: (np.sqrt((w * w).sum(1, keepdims=True)) * w).sum() + y.sum(),
    ),
    "tied": (lambda x, y, w: (ops.tanh(y) @ w.T * x).sum(), lambda x, y, w: (np.tanh(y) @ w.T * x).sum()),
    "used again": (lambda x, y, w: (ops.tanh(x @ w) * y).sum(), lambda x, y, w: (np.tanh(x @ w) * y).sum()),
    "scaled": (lambda x, y, w: (ops.tanh(x @ (w * 2.0)) * y).sum(), lambda x, y, w: (np.tanh(x @ (w * 2)) * y).sum()),
    "first": (lambda x, y, w: (x[:6, :4] * w).sum() * y.sum(), lambda x, y, w: (x[:6, :4] * w).sum() * y.sum()),
}


class Net(nn.Cell):
    """A product whose weight is used once more, without a strategy, before or after it."""

    def __init__(self, name: str, cut: tuple[int, int, int]) -> None:
        super().__init__()
        rows, inner, columns = cut
        self.w = ms.Parameter(W, "w")
        self.product = ops.MatMul().shard(((rows, inner), (inner, columns)))
        self.loss = USES[name][0]

    def construct(self, x: Any) -> Any:
        return self.loss(x, self.product(x, self.w), self.w)


def train(communicator: Any, name: str, cut: tuple[int, int, int], optimizer_shards: bool = False) -> Any:
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    if optimizer_shards:
        shards = {"parallel_optimizer_threshold": 0}
        ms.set_auto_parallel_context(enable_parallel_optimizer=True, parallel_optimizer_config=shards)
    network = Net(name, cut)
    optimizer = nn.SGD([network.w], 1e-3)
    step = nn.TrainOneStepCell(network, optimizer).set_train()
    losses = [float(step(ms.Tensor(X)).asnumpy()) for _ in range(2)]
    held = np.zeros(W.shape)
    held[network.w.box.within(type(network.w.box).whole(W.shape))] = network.w.asnumpy()
    return losses, held, network.w.layout.replica(communicator.rank) == 0


def expected(name: str) -> tuple[list[float], Any]:
    """Return the losses of two steps and the weight after them, by numeric gradients."""
    w, losses = W.copy(), []
    objective = lambda w: float(USES[name][1](X, X @ w, w))  # noqa: E731
    for _ in range(2):
        losses.append(objective(w))
        gradient = np.zeros_like(w)
        for place in np.ndindex(w.shape):
            for step in (1e-5, -1e-5):
                moved = w.copy()
                moved[place] += step
                gradient[place] += objective(moved) / (2 * step)
        w = w - 1e-3 * gradient
    return losses, w


@pytest.mark.parametrize("name", USES)
def test_two_steps_are_those_of_numpy_under_every_cut(name: str) -> None:
    losses, weight = expected(name)
    for ranks, cut in CUTS:
        for shards in (False, True):
            found = run_world(ranks, train, name, cut, shards)
            for one, _, _ in found:
                np.testing.assert_allclose(one, losses, rtol=1e-8, err_msg=f"{cut} on {ranks}")
            total = sum(held for _, held, first in found if first)
            np.testing.assert_allclose(total, weight, rtol=1e-7, atol=1e-9, err_msg=f"{cut} on {ranks}")


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("cut", [(1, 4, 1), (1, 1, 4), (1, 2, 2)])
def test_a_cut_weight_is_not_moved(name: str, cut: tuple[int, int, int]) -> None:
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", device_num=4, full_batch=True)
    sharded = Net(name, cut).sharded_graph(X)
    local = local_graph(sharded, 0)
    moved = [node.operator.scope for node in local.nodes if node.operator.kind == "communication"]
    assert not [scope for scope in moved if scope.startswith("w/") or "Transpose" in scope], moved
