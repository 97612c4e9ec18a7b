"""BatchNorm1d under every legal cut: statistics of the whole batch, against NumPy."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.communication.threads import run_world

EPSILON, STEP = 1e-5, 1e-5
GAMMA, BETA = np.array([0.5, -1.5, 2.0]), np.array([1.0, 0.0, -1.0])
INPUTS = {len(shape): np.random.default_rng(shape).normal(1.0, 2.0, shape) for shape in ((6, 3), (4, 3, 5))}


def column(vector: Any, rank: int) -> Any:
    return vector.reshape(-1, *(1,) * (rank - 2))


def moments(x: Any) -> tuple[Any, Any]:
    dims = (0, *range(2, x.ndim))
    return x.mean(dims), x.var(dims)


def normalised(x: Any, mean: Any, variance: Any) -> Any:
    mean, deviation, gamma, beta = (column(one, x.ndim) for one in (mean, np.sqrt(variance + EPSILON), GAMMA, BETA))
    return (x - mean) / deviation * gamma + beta


def applied(communicator: Any, rank: int, cuts: tuple[int, ...]) -> list[Any]:
    """Return what training makes of the input: output, gradient of its weighted sum, statistics; then evaluation."""
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    layer = nn.BatchNorm1d(3, momentum=0.75, gamma_init=ms.Tensor(GAMMA), beta_init=ms.Tensor(BETA), dtype=np.float64)
    layer.bn_train.shard((cuts, *((cuts[1],),) * 4))
    layer.bn_infer.shard(((*cuts, *(1,) * (4 - len(cuts))), *((cuts[1],),) * 4))
    x = ms.Tensor(INPUTS[rank])
    weights = ms.Tensor(np.cos(np.arange(INPUTS[rank].size)).reshape(INPUTS[rank].shape))
    layer.set_train()
    gradient = ops.grad(lambda x: (layer(x) * weights).sum())(x).asnumpy()
    held = layer.moving_mean.box
    moving = [np.array(one.asnumpy()) for one in (layer.moving_mean, layer.moving_variance)]
    return [layer(x).asnumpy(), gradient, held, *moving, layer.set_train(False)(x).asnumpy()]


def numeric_gradient(x: Any) -> Any:
    weights = np.cos(np.arange(x.size)).reshape(x.shape)
    found = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        for step in (STEP, -STEP):
            moved = x.copy()
            moved[place] += step
            found[place] += (normalised(moved, *moments(moved)) * weights).sum() / (2 * step)
    return found


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("rank", INPUTS)
def test_the_statistics_are_those_of_the_whole_batch_under_every_cut(rank: int, ranks: int) -> None:
    x = INPUTS[rank]
    mean, variance = moments(x)
    count = x.size // 3
    gradient = numeric_gradient(x)
    for cuts in product(range(1, ranks + 1), repeat=rank):
        if ranks % int(np.prod(cuts)):
            continue
        for output, found, held, *moving, evaluated in run_world(ranks, applied, rank, cuts):
            np.testing.assert_allclose(output, normalised(x, mean, variance), atol=1e-12)
            np.testing.assert_allclose(found, gradient, atol=1e-7)
            once = 0.25 * mean, 0.75 + 0.25 * variance * count / (count - 1)
            (channels,) = held.within(type(held).whole((3,)))
            np.testing.assert_allclose(moving, [one[channels] for one in once], atol=1e-12)
            twice = 0.75 * once[0] + 0.25 * mean, 0.75 * once[1] + 0.25 * variance * count / (count - 1)
            np.testing.assert_allclose(evaluated, normalised(x, *twice), atol=1e-12)
