"""The layers of convolutional networks compute their formulas, and a small network trains alike however it is cut."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ConfigurationError, ShapeError

GENERATOR = np.random.default_rng(5)
X = GENERATOR.normal(size=(6, 3, 7, 6))
LABELS = GENERATOR.integers(0, 5, 6).astype(np.int32)
WEIGHT, BIAS = GENERATOR.normal(size=(4, 3, 3, 3)) * 0.3, GENERATOR.normal(size=4)
GAMMA, BETA = GENERATOR.uniform(0.5, 1.5, 4), GENERATOR.normal(size=4)


class SmallNetwork(nn.Cell):
    """Convolution, batch normalisation, ReLU, both poolings and a dense layer, in float64."""

    def __init__(self, channels=1, images=1):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, 2, weight_init=ms.Tensor(WEIGHT), has_bias=True, dtype=np.float64)
        gamma, beta = ms.Tensor(GAMMA), ms.Tensor(BETA)
        self.norm = nn.BatchNorm2d(4, gamma_init=gamma, beta_init=beta, dtype=np.float64)
        self.relu = nn.ReLU()
        self.max_pool, self.avg_pool = nn.MaxPool2d(2, 1), nn.AvgPool2d(2, 1, "same")
        self.flatten = nn.Flatten()
        weight = ms.Tensor(np.random.default_rng(6).normal(size=(5, 24)))
        self.dense = nn.Dense(24, 5, weight, dtype=np.float64)
        if images * channels > 1:
            cut, vector = (images, channels, 1, 1), (channels,)
            self.conv.conv2d.shard(((images, 1, 1, 1), (channels, 1, 1, 1)))
            self.conv.bias_add.shard((cut, (channels,)))
            self.norm.bn_train.shard((cut, *(vector,) * 4))
            self.norm.bn_infer.shard((cut, *(vector,) * 4))
            self.max_pool.max_pool.shard((cut,))
            self.avg_pool.avg_pool.shard((cut,))

    def construct(self, x):
        pooled = self.avg_pool(self.max_pool(self.relu(self.norm(self.conv(x)))))
        return self.dense(self.flatten(pooled))


def train(_communicator, images, channels):
    """Return the losses of three steps, the parameters after them as whole tensors, and outputs in evaluation."""
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    network = SmallNetwork(channels, images)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
    step = nn.TrainOneStepCell(nn.WithLossCell(network, loss), optimizer).set_train()
    losses = [step(ms.Tensor(X), ms.Tensor(LABELS)).item() for _ in range(3)]
    network.set_train(False)
    whole = {one.name: one.asnumpy().copy() for one in network.get_parameters() if channels == 1}
    return losses, whole, network(ms.Tensor(X)).asnumpy()


@pytest.mark.parametrize(
    ("ranks", "images", "channels"), [(2, 1, 1), (3, 1, 1), (2, 2, 1), (4, 4, 1), (2, 1, 2), (6, 3, 2), (3, 1, 3)]
)
def test_a_network_trains_as_on_one_rank_however_it_is_cut(ranks, images, channels) -> None:
    ((losses, parameters, outputs),) = run_world(1, train, 1, 1)
    assert losses[2] < losses[0]
    for found, held, evaluated in run_world(ranks, train, images, channels):
        np.testing.assert_allclose(found, losses, rtol=1e-10)
        np.testing.assert_allclose(evaluated, outputs, rtol=1e-10, atol=1e-10)
        for name, value in held.items():
            np.testing.assert_allclose(value, parameters[name], rtol=1e-10, atol=1e-10, err_msg=name)


def normalised(x, mean, variance):
    vectors = (one[:, None, None] for one in (mean, variance + 1e-5, GAMMA, BETA))
    mean, variance, gamma, beta = vectors
    return (x - mean) / np.sqrt(variance) * gamma + beta


def batch_norm(**options):
    return nn.BatchNorm2d(4, gamma_init=ms.Tensor(GAMMA), beta_init=ms.Tensor(BETA), dtype=np.float64, **options)


IMAGES = GENERATOR.normal(size=(5, 4, 3, 2)) + 2


@pytest.mark.parametrize("mode", [ms.context.GRAPH_MODE, ms.context.PYNATIVE_MODE])
def test_batch_norm_uses_the_batch_in_training_and_moving_statistics_otherwise(mode) -> None:
    ms.set_context(mode=mode)
    layer = batch_norm(momentum=0.75)
    mean, variance = IMAGES.mean((0, 2, 3)), IMAGES.var((0, 2, 3))
    np.testing.assert_allclose(layer(ms.Tensor(IMAGES)).asnumpy(), normalised(IMAGES, np.zeros(4), np.ones(4)))
    np.testing.assert_allclose(layer.set_train()(ms.Tensor(IMAGES)).asnumpy(), normalised(IMAGES, mean, variance))
    moving = 0.25 * mean, 0.75 + 0.25 * variance * 30 / 29
    np.testing.assert_allclose(layer.moving_mean.asnumpy(), moving[0])
    np.testing.assert_allclose(layer.moving_variance.asnumpy(), moving[1])
    np.testing.assert_allclose(layer.set_train(False)(ms.Tensor(IMAGES)).asnumpy(), normalised(IMAGES, *moving))


def test_the_operator_returns_the_statistics_it_used_and_moves_the_parameters() -> None:
    mean, variance = (ms.Parameter(one, name) for one, name in ((np.zeros(4), "mean"), (np.ones(4), "variance")))
    y, *used = ms.ops.BatchNorm(True, 1e-5, 0.25)(IMAGES, GAMMA, BETA, mean, variance)
    wanted = IMAGES.mean((0, 2, 3)), IMAGES.var((0, 2, 3))
    np.testing.assert_allclose(y.asnumpy(), normalised(IMAGES, *wanted))
    for one, other in zip(used, wanted * 2, strict=True):
        np.testing.assert_allclose(one.asnumpy(), other)
    np.testing.assert_allclose(mean.asnumpy(), 0.25 * wanted[0])
    np.testing.assert_allclose(variance.asnumpy(), 0.75 + 0.25 * wanted[1] * 30 / 29)


@pytest.mark.parametrize("given", [True, False])
def test_batch_norm_can_be_told_which_statistics_to_use(given) -> None:
    layer = batch_norm(use_batch_statistics=given, affine=False).set_train(not given)
    wanted = (IMAGES.mean((0, 2, 3)), IMAGES.var((0, 2, 3))) if given else (np.zeros(4), np.ones(4))
    np.testing.assert_allclose(layer(ms.Tensor(IMAGES)).asnumpy(), normalised(IMAGES, *wanted))
    assert layer.trainable_params() == []


def test_the_gradient_of_batch_norm_goes_through_its_statistics() -> None:
    layer, weights = batch_norm().set_train(), GENERATOR.normal(size=IMAGES.shape)
    weighted = lambda x: ms.ops.reduce_sum(layer(x) * ms.Tensor(weights))  # noqa: E731
    gradient = ms.ops.grad(weighted)(ms.Tensor(IMAGES)).asnumpy()
    for place in [(0, 0, 0, 0), (2, 3, 1, 1), (4, 1, 2, 0)]:
        values = []
        for step in (1e-5, -1e-5):
            moved = IMAGES.copy()
            moved[place] += step
            values.append((normalised(moved, moved.mean((0, 2, 3)), moved.var((0, 2, 3))) * weights).sum())
        np.testing.assert_allclose(gradient[place], (values[0] - values[1]) / 2e-5, rtol=1e-6, atol=1e-7)


def test_float32_images_give_float32_outputs_and_gradients() -> None:
    layer = nn.SequentialCell(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.MaxPool2d(2, 2), nn.AvgPool2d(2)).set_train()
    x = ms.Tensor(X.astype(np.float32))
    assert layer(x).dtype == np.float32
    total, gradients = ms.ops.value_and_grad(lambda x: ms.ops.reduce_sum(layer(x)), 0, layer.trainable_params())(x)
    assert total.dtype == np.float32
    assert gradients[0].dtype == np.float32
    assert all(one.dtype == np.float32 for one in gradients[1])


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: nn.Conv2d(3, 4, 3, group=2), ConfigurationError, "in_channels=3 does not divide"),
        (lambda: nn.Conv2d(0, 4, 3), ConfigurationError, "in_channels=0 does not divide into group=1 parts"),
        (lambda: nn.Conv2d(2, 3, 3, group=2), ConfigurationError, "out_channel=3 does not divide"),
        (lambda: nn.Conv2d(3, 4, 3, padding=1), ConfigurationError, "needs pad_mode='pad'"),
        (lambda: nn.Conv2d(3, 4, 3, pad_mode="full"), ConfigurationError, "'full' is not one of valid, same, pad"),
        (lambda: nn.Conv2d(3, 4, 0), ConfigurationError, "kernel_size=0 must be a positive integer"),
        (lambda: nn.Conv2d(3, 4, 3, data_format="NHWC"), ConfigurationError, "'NHWC' is not supported"),
        (lambda: nn.MaxPool2d(2, 2, "pad"), ConfigurationError, "neither 'valid' nor 'same'"),
        (lambda: nn.BatchNorm2d(0), ConfigurationError, "num_features=0"),
        (lambda: nn.BatchNorm2d(3, momentum=-0.1), ConfigurationError, "momentum=-0.1 from 0 to 1"),
        (lambda: nn.BatchNorm2d(3, momentum=1.1), ConfigurationError, "momentum=1.1 from 0 to 1"),
        (lambda: nn.BatchNorm2d(3, data_format="NHWC"), ConfigurationError, "and data_format='NHWC' 'NCHW'"),
        (lambda: nn.BatchNorm2d(3, data_format="NCDHW"), ConfigurationError, "and data_format='NCDHW' 'NCHW'"),
        (lambda: nn.BatchNorm2d(2.0), ConfigurationError, "num_features=2.0 must be an integer of at least 1"),
        (lambda: nn.BatchNorm1d("3"), ConfigurationError, "num_features='3' must be an integer"),
        (lambda: nn.BatchNorm1d(4)(ms.Tensor(IMAGES)), ShapeError, r"must be \(n, 4\) or \(n, 4, length\)"),
        (lambda: nn.BatchNorm2d(5)(ms.Tensor(IMAGES)), ShapeError, r"x has shape \(5, 4, 3, 2\); it must be \(n, 5, h"),
        (lambda: nn.BatchNorm2d(4)(ms.Tensor(IMAGES[0])), ShapeError, r"x has shape \(4, 3, 2\); it must be \(n, 4"),
        (lambda: nn.BatchNorm2d(3)(ms.Tensor(IMAGES)), ShapeError, r"it must be \(n, 3, h, w\)"),
        (lambda: nn.MaxPool2d(4)(ms.Tensor(IMAGES)), ShapeError, "smaller than a window"),
        (lambda: nn.Conv2d(3, 4, 3)(ms.Tensor(IMAGES.astype(np.float32))), ShapeError, "Conv2d: x has shape"),
        (
            lambda: nn.Conv2d(5, 4, 3)(ms.Tensor(IMAGES.astype(np.float32))),
            ShapeError,
            r"Conv2d: x has shape \(5, 4, 3, 2\); it must be \(images, 5, height, width\)",
        ),
        (
            lambda: nn.Conv2d(3, 4, 3)(ms.Tensor(np.ones((4, 3, 2), np.float32))),
            ShapeError,
            r"Conv2d: x has shape \(4, 3, 2\); it must be \(images, 3, height, width\)",
        ),
    ],
)
def test_a_layer_says_what_does_not_fit(call, error, said) -> None:
    with pytest.raises(error, match=said):
        call()


@pytest.mark.parametrize("momentum", [0.0, 1.0])
def test_moving_statistics_may_stay_as_they_are_or_be_those_of_the_last_batch(momentum) -> None:
    layer = batch_norm(momentum=momentum).set_train()
    layer(ms.Tensor(IMAGES))
    wanted = momentum * np.zeros(4) + (1 - momentum) * IMAGES.mean((0, 2, 3))
    np.testing.assert_allclose(layer.moving_mean.asnumpy(), wanted, atol=1e-15)


@pytest.mark.parametrize("layer", [nn.Conv2d(300, 2, 1), nn.BatchNorm2d(300)])
def test_layers_of_many_channels_take_images_of_as_many(layer) -> None:
    assert layer(ms.Tensor(np.ones((1, 300, 2, 2), np.float32))).shape[2:] == (2, 2)
