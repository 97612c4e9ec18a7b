"""ResNet-18 and a Transformer train in 16 bits to the level of float32, on one rank and on several."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import Model, amp, nn
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.dataset.text import translation_dataset
from mpiparallel.models.resnet import resnet18
from mpiparallel.models.translation import TranslationConfig, TranslationNetwork
from mpiparallel.nn.transformer import TransformerOpParallelConfig
from mpiparallel.train import Callback, DynamicLossScaleManager

pytestmark = pytest.mark.slow

CLASSES, IMAGES, STEPS, SIZE, LAST = 4, 64, 40, 16, 8
LEVEL = 0.05
"""How far the mean of the last losses may be from that of float32, as a part of the first loss."""


class Losses(Callback):
    def __init__(self) -> None:
        self.values: list[float] = []

    def every_step(self, run_context: Any) -> None:
        self.values.append(float(run_context.original_args().net_outputs))


def images() -> tuple[Any, Any]:
    """Return noise over a picture for each class, and the classes."""
    random = np.random.default_rng(1)
    labels = np.arange(IMAGES, dtype=np.int32) % CLASSES
    pictures = random.normal(size=(CLASSES, 3, 16, 16))
    noise = random.normal(size=(IMAGES, 3, 16, 16))
    return (0.5 * pictures[labels] + noise).astype(np.float32), labels


def train_resnet(communicator: Communicator, dtype: Any) -> list[float]:
    ms.set_seed(3)
    count = communicator.size
    if count > 1:
        ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
    network = resnet18(CLASSES)
    level, manager = precision(network, dtype)
    optimizer = nn.Momentum(network.trainable_params(), 0.02, 0.9)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    model = Model(network, loss, optimizer, amp_level=level, loss_scale_manager=manager)
    own = np.arange(IMAGES) % count == communicator.rank
    columns = tuple(one[own] for one in images())
    dataset = NumpySlicesDataset(columns, ["x", "y"], shuffle=False).batch(SIZE // count)
    losses = Losses()
    model.train(STEPS * SIZE // IMAGES, dataset, losses)
    return losses.values


def train_transformer(communicator: Communicator, dtype: Any) -> list[float]:
    ms.set_seed(3)
    count = communicator.size
    if count > 1:
        ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    config = TranslationConfig(
        batch_size=SIZE, source_length=8, target_length=9, vocab_size=30, hidden_size=32, num_heads=4, dropout_rate=0.0
    )
    cuts = TransformerOpParallelConfig(data_parallel=max(count // 2, 1), model_parallel=min(count, 2))
    network = TranslationNetwork(config, cuts)
    level, manager = precision(network, dtype)
    model = Model(
        network, optimizer=nn.Adam(network.trainable_params(), 3e-3), amp_level=level, loss_scale_manager=manager
    )
    losses = Losses()
    model.train(STEPS * SIZE // IMAGES, sentences(), losses)
    return losses.values


def sentences() -> Any:
    """Return sentences of words that repeat, so that there is something to learn."""
    random = np.random.default_rng(2)
    words = [f"w{number}" for number in range(8)]
    lines = [" ".join(random.choice(words, 6)) for _ in range(IMAGES)]
    pairs = [(one, one) for one in lines]
    return translation_dataset(pairs, 8, 9, 30, SIZE, 3, float_type=np.float32, start_token=True)


def precision(network: nn.Cell, dtype: Any) -> tuple[str, DynamicLossScaleManager | None]:
    """Let a network compute in ``dtype``; return the level and the scale for Model."""
    if dtype == np.float16:
        return "O2", DynamicLossScaleManager(1024.0, 2, 20)
    if dtype == ms.bfloat16:
        amp.auto_mixed_precision(network, "O2", dtype)
    return "O0", None


@cache
def curve(train: Any, ranks: int, dtype: Any) -> Any:
    return np.mean(run_world(ranks, train, dtype), axis=0)


RUNS = [(train_resnet, 1), (train_resnet, 4), (train_transformer, 1), (train_transformer, 4), (train_transformer, 8)]
"""On 8 ranks, of two images each, ResNet learns next to nothing in float32 either."""


@pytest.mark.parametrize(("train", "ranks"), RUNS)
@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16], ids=str)
def test_the_losses_come_to_the_level_of_float32(train: Any, dtype: Any, ranks: int) -> None:
    wanted, found = curve(train, ranks, ms.float32), curve(train, ranks, dtype)
    assert len(found) == len(wanted) == STEPS
    assert wanted[-LAST:].mean() < 0.7 * wanted[0]
    assert abs(found[-LAST:].mean() - wanted[-LAST:].mean()) <= LEVEL * wanted[0]
