"""Training on CuPy against NumPy in float64: the same losses; needs a CUDA device."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import context, nn
from mpiparallel.communication.threads import run_world
from mpiparallel.models.resnet import resnet18
from mpiparallel.models.translation import TranslationConfig, TranslationNetwork, decay_groups
from mpiparallel.nn.transformer import TransformerOpParallelConfig
from mpiparallel.train import Model

pytestmark = pytest.mark.gpu

STEPS = 5
SEED = 1
"""With it no activation is so near to 0 that rounding changes its sign, and so its slope: with 7 one is, in the fourth
step, and the next loss in float32 is 1.7e-4 from that in float64, whatever computes it."""
WANTED = {"ResNet-18": "ResNet-18 in float64"}
"""The network that gives the losses of another more exactly."""
SIZES = TranslationConfig(
    batch_size=8,
    source_length=5,
    target_length=6,
    vocab_size=43,
    hidden_size=16,
    num_heads=4,
    dtype=np.dtype("float64"),
)


def translation_model(ranks):
    network = TranslationNetwork(SIZES, TransformerOpParallelConfig(data_parallel=ranks, model_parallel=1))
    return Model(network, optimizer=nn.AdamWeightDecay(decay_groups(network.trainable_params()), learning_rate=1e-3))


def translation_batch(random):
    source, target = random.integers(4, 43, (8, 5)), random.integers(4, 43, (8, 6))
    places = [np.tile(np.arange(length, dtype=np.int32), (8, 1)) for length in (5, 6)]
    masks = [np.ones((8, 5, 5)), np.ones((8, 6, 5))]
    labels = random.integers(4, 43, (8, 6)).astype(np.int32)
    return [source.astype(np.int32), places[0], masks[0], target.astype(np.int32), places[1], masks[1], labels]


def image_model(_ranks, dtype=np.float32):
    network = resnet18(num_classes=10)
    for parameter in network.get_parameters() if dtype != np.float32 else ():
        parameter.set_dtype(dtype)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    return Model(network, loss_fn=loss, optimizer=nn.Momentum(network.trainable_params(), 0.05, 0.9))


def image_batch(random, dtype=np.float32):
    images = random.standard_normal((8, 3, 32, 32)).astype(np.float32).astype(dtype)
    return [images, random.integers(0, 10, 8).astype(np.int32)]


NETWORKS = {
    "Transformer": (translation_model, translation_batch, 1e-9),
    "ResNet-18": (image_model, image_batch, 1e-5),
    "ResNet-18 in float64": (
        partial(image_model, dtype=np.float64),
        partial(image_batch, dtype=np.float64),
        1e-9,
    ),
}


def losses(communicator, name, device_target, optimizer_parallel):
    make_model, make_batch, _ = NETWORKS[name]
    context.set_context(device_target=device_target)
    context.reset_auto_parallel_context()
    context.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        full_batch=True,
        enable_parallel_optimizer=optimizer_parallel,
        parallel_optimizer_config={"parallel_optimizer_threshold": 0},
    )
    ms.set_seed(SEED)
    model, random = make_model(communicator.size), np.random.default_rng(0)
    model.train_network.set_train()
    return [float(model.run_step(make_batch(random))) for _ in range(STEPS)]


@pytest.mark.parametrize(("ranks", "optimizer_parallel"), [(1, False), (2, False), (2, True), (4, True), (8, True)])
@pytest.mark.parametrize("name", NETWORKS)
def test_losses_on_the_device_are_those_on_the_host(name, ranks, optimizer_parallel) -> None:
    (wanted,) = run_world(1, losses, WANTED.get(name, name), "CPU", False)
    for found in run_world(ranks, losses, name, "GPU", optimizer_parallel):
        np.testing.assert_allclose(found, wanted, rtol=NETWORKS[name][2])


def test_losses_in_float32_on_the_host_are_those_in_float64() -> None:
    wanted, found = (run_world(1, losses, name, "CPU", False)[0] for name in ("ResNet-18 in float64", "ResNet-18"))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
