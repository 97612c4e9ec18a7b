"""The loss curves of ResNet on 1, 2, 4 and 8 ranks in semi-auto mode lie on each other, even and uneven."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn
from mpiparallel.communication.threads import run_world
from mpiparallel.models.resnet import Residual, ResNet

STEPS = 10
IMAGES = np.random.default_rng(0).normal(size=(STEPS, 8, 3, 16, 16))
LABELS = np.random.default_rng(1).integers(0, 4, (STEPS, 8)).astype(np.int32)


def cut_batch(network: ResNet, loss: nn.SoftmaxCrossEntropyWithLogits, ways: int) -> None:
    """Have every operator cut the batch ``ways`` ways, whether it comes out even or not."""
    image, vector, row = (ways, 1, 1, 1), (1,), (ways, 1)
    for _, cell in network.cells_and_names():
        if isinstance(cell, nn.Conv2d):
            cell.conv2d.shard((image, (1, 1, 1, 1)))
        elif isinstance(cell, nn.BatchNorm2d):
            cell.bn_train.shard((image, vector, vector, vector, vector))
        elif isinstance(cell, nn.ReLU):
            cell.relu.shard((image,))
        elif isinstance(cell, nn.MaxPool2d):
            cell.max_pool.shard((image,))
        elif isinstance(cell, Residual):
            cell.add.shard((image, image))
        elif isinstance(cell, nn.Dense):
            cell.matmul.shard((row, (1, 1)))
            cell.bias_add.shard((row, vector))
    network.mean.shard((image,))
    loss.sparse_softmax_cross_entropy.shard((row, (ways,)))


def loss_curve(_communicator, batch: int, ways: int):
    ms.set_seed(2)
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    network = ResNet((1, 1), 4, expansion=2, widths=(4, 6), dtype=ms.float64)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    if ways > 1:
        cut_batch(network, loss, ways)
    model = ms.Model(network, loss, nn.Momentum(network.trainable_params(), 0.1, 0.9))
    model.train_network.set_train()
    pairs = zip(IMAGES, LABELS, strict=True)
    losses = [float(model.run_step([images[:batch], labels[:batch]])) for images, labels in pairs]
    return losses, network.stem[1].moving_variance.asnumpy().copy()


@pytest.mark.parametrize(
    ("batch", "worlds"),
    [(8, (2, 4, 8)), (7, (2, 4, 8)), (3, (8,))],
    ids=["even", "uneven", "fewer images than ranks"],
)
def test_the_loss_curves_of_1_2_4_and_8_ranks_lie_on_each_other(batch, worlds) -> None:
    ((expected, variance),) = run_world(1, loss_curve, batch, 1)
    assert len(set(expected)) == STEPS
    for ranks in worlds:
        for losses, found in run_world(ranks, loss_curve, batch, ranks):
            np.testing.assert_allclose(losses, expected, rtol=1e-9, err_msg=f"{ranks} ranks")
            np.testing.assert_allclose(found, variance, rtol=1e-9, err_msg=f"{ranks} ranks")
