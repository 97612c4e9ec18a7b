"""A small ResNet of bottlenecks in float64, by strategies that the first rank finds: three steps on small images.

Each rank prints the loss of each step to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import mpiparallel as ms
from mpiparallel import Model, context, nn
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.models.resnet import ResNet
from mpiparallel.train.callback import Callback

BATCH, STEPS = 8, 3


def train(callbacks: Sequence[Callback]) -> None:
    """Train on all ranks of the world; one rank alone needs no strategies."""
    ms.set_seed(1)
    labels = np.random.default_rng(1).integers(0, 10, BATCH * STEPS).astype(np.int32)
    images = np.random.default_rng(2).normal(size=(BATCH * STEPS, 3, 32, 32)) + labels[:, None, None, None]
    data = NumpySlicesDataset((images, labels), ["image", "label"], shuffle=False).batch(BATCH)
    network = ResNet((1, 1, 1, 1), 10, expansion=4, widths=(8, 16, 32, 64), dtype=ms.float64)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    model = Model(network, loss_fn=loss, optimizer=nn.Momentum(network.trainable_params(), 0.001, 0.9))
    model.train(1, data, list(callbacks), dataset_sink_mode=False)


def main() -> None:
    from mpiparallel.communication import init
    from tests.cluster.training import Told

    init()
    search = {"auto_parallel_search_mode": "recursive_programming", "full_batch": True}
    context.set_auto_parallel_context(parallel_mode="auto_parallel", **search)
    train([Told(0.0)])


if __name__ == "__main__":
    main()
