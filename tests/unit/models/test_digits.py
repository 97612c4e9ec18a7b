"""A small ResNet learns to read real digits in a few epochs, in data parallel and in semi-auto mode alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mpiparallel as ms
import mpiparallel.dataset as ds
import mpiparallel.dataset.transforms.c_transforms as C
import mpiparallel.dataset.vision.c_transforms as vision
from mpiparallel import nn
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset.digits import write_digit_images
from mpiparallel.models.resnet import ResNet

EPOCHS = 3
BATCH = 32


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sklearn.datasets", reason="scikit-learn, which has the digits, is not installed")
    return write_digit_images(tmp_path_factory.mktemp("digits"))


def images_of(folder: Path, usage: str, batch: int, **shares: int) -> ds.Dataset:
    images: ds.Dataset = ds.Cifar10Dataset(folder, usage, **shares)
    scale = [vision.Resize((16, 16)), vision.Rescale(2 / 255, -1.0), vision.HWC2CHW()]
    images = images.map(scale, "image").map(C.TypeCast(ms.int32), "label")
    return images.batch(batch, drop_remainder=usage == "train")


@pytest.mark.parametrize("mode", ["data_parallel", "semi_auto_parallel"])
def test_a_small_resnet_reads_nine_of_ten_digits_it_has_not_seen(digits, mode) -> None:
    def on_rank(communicator):
        ms.set_seed(1)
        own_batches = mode == "data_parallel"
        ms.set_auto_parallel_context(parallel_mode=mode, gradients_mean=True, full_batch=not own_batches)
        shares = {"num_shards": communicator.size, "shard_id": communicator.rank} if own_batches else {}
        training = images_of(digits, "train", BATCH // communicator.size if own_batches else BATCH, **shares)
        network = ResNet((1, 1, 1), 10, widths=(8, 16, 32), last_gamma="zeros")
        loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
        steps = training.get_dataset_size()
        rates = nn.cosine_decay_lr(0.0, 0.1, EPOCHS * steps, steps, EPOCHS)
        model = ms.Model(network, loss, nn.Momentum(network.trainable_params(), rates, 0.9), metrics={"acc"})
        model.train(EPOCHS, training)
        return model.eval(images_of(digits, "test", 64))["acc"]

    accuracies = run_world(2, on_rank)
    assert len(set(accuracies)) == 1
    assert accuracies[0] > 0.9, np.round(accuracies, 3)
