"""Layers that pad and pool to a size, cut over thread ranks, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ConfigurationError

X = np.random.default_rng(1).normal(size=(4, 6, 5, 4))
LABELS = np.random.default_rng(2).uniform(size=(4, 6))


class Head(nn.Cell):
    """Padding, global pooling and a loss of many labels."""

    def __init__(self, cut):
        super().__init__()
        self.pad = nn.Pad(((0, 0), (0, 0), (1, 0), (0, 2)))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.loss = nn.BCEWithLogitsLoss()
        self.pad.pad.shard((cut,))
        self.pool.adaptive_avg_pool.shard((cut,))

    def construct(self, x, labels):
        pooled = self.pool(self.pad(x))
        return pooled, self.loss(pooled.reshape(labels.shape), labels)


def run(_communicator, cut):
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    return [one.asnumpy() for one in Head(cut)(ms.Tensor(X), ms.Tensor(LABELS))]


@pytest.mark.parametrize(("ranks", "cut"), [(1, (1, 1, 1, 1)), (2, (2, 1, 1, 1)), (6, (2, 3, 1, 1)), (4, (1, 2, 1, 1))])
def test_values_are_those_of_numpy_however_images_and_channels_are_cut(ranks, cut) -> None:
    mean = np.pad(X, ((0, 0), (0, 0), (1, 0), (0, 2))).mean((2, 3), keepdims=True)
    logits = mean[:, :, 0, 0]
    loss = np.log1p(np.exp(logits)) - LABELS * logits
    for pooled, found in run_world(ranks, run, cut):
        np.testing.assert_allclose(pooled, mean, rtol=1e-12)
        np.testing.assert_allclose(found, loss.mean(), rtol=1e-12)


@pytest.mark.parametrize("shape", [(0, 3, 4, 6), (2, 0, 4, 6)])
def test_pools_of_no_images_or_no_channels_have_the_wanted_height_and_width(shape) -> None:
    images = np.ones(shape)
    halves = np.stack([images[:, :, :, :3].mean((2, 3)), images[:, :, :, 3:].mean((2, 3))], -1)[:, :, None]
    pooled = nn.AdaptiveAvgPool2d((1, 2))(ms.Tensor(images)).asnumpy()
    assert pooled.shape == halves.shape == (*shape[:2], 1, 2)


def test_what_is_not_supported_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="mode 'REFLECT' is not supported; use 'CONSTANT'"):
        nn.Pad(((0, 1),), "REFLECT")
    with pytest.raises(ConfigurationError, match="output_size 0 must be a number or"):
        nn.AdaptiveAvgPool2d(0)
