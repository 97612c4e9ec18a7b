"""Single operators with their gradients, and ten steps of each optimizer, against PyTorch in float64."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="make test-interop installs PyTorch")

import mpiparallel as ms  # noqa: E402
from mpiparallel import nn, ops  # noqa: E402
from mpiparallel.graph.parameter import Parameter  # noqa: E402

functional = torch.nn.functional
pytestmark = pytest.mark.interop


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def convolution(size, **options):
    ours = {name: value for name, value in options.items() if name != "pad"}
    pad = options.get("pad", 0)
    theirs = {"stride": options.get("stride", 1), "dilation": options.get("dilation", 1)}

    def peer(x, weight):
        return functional.conv2d(x, weight, padding=pad, groups=options.get("group", 1), **theirs)

    def operator(x, weight):
        return ops.Conv2D(6, size, pad_mode="pad", pad=(pad[0], pad[0], pad[1], pad[1]), **ours)(x, weight)

    return operator, peer, (normal(2, 4, 9, 8), normal(6, 4 // options.get("group", 1), *size, seed=1))


def layer_norm(x, gamma, beta):
    return ops.LayerNorm(-1, -1, 1e-5)(x, gamma, beta)[0]


def sparse_cross_entropy(logits):
    return nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")(logits, ms.Tensor(LABELS))


LABELS = np.array([3, 0, 5, 5], np.int32)
IMAGES = normal(2, 3, 7, 8)
# Ours, PyTorch's, and the inputs, by all of which both are differentiated.
ROWS = {
    "convolution 3x3": convolution((3, 3), pad=(1, 1)),
    "convolution 3x2, stride 2, pad 1 x 0": convolution((3, 2), pad=(1, 0), stride=2),
    "convolution, stride 2 x 1, dilation 2": convolution((3, 3), pad=(2, 2), stride=(2, 1), dilation=2),
    "convolution of 2 groups": convolution((3, 3), pad=(1, 1), group=2),
    "convolution 1x1, stride 2": convolution((1, 1), pad=(0, 0), stride=2),
    "max pooling": (lambda x: ops.MaxPool(3, 2)(x), lambda x: functional.max_pool2d(x, 3, 2), (IMAGES,)),
    "average pooling": (lambda x: ops.AvgPool(2, 2)(x), lambda x: functional.avg_pool2d(x, 2, 2), (IMAGES,)),
    "layer norm": (
        layer_norm,
        lambda x, gamma, beta: functional.layer_norm(x, (6,), gamma, beta, 1e-5),
        (normal(4, 6), normal(6, seed=1), normal(6, seed=2)),
    ),
    "GELU by its tanh form": (
        lambda x: ops.GeLU()(x),
        lambda x: functional.gelu(x, approximate="tanh"),
        (3 * normal(40),),
    ),
    "softmax": (lambda x: ops.Softmax(-1)(x), lambda x: torch.softmax(x, -1), (normal(4, 6),)),
    "cross entropy": (
        sparse_cross_entropy,
        lambda x: functional.cross_entropy(x, torch.from_numpy(LABELS).long()),
        (normal(4, 6),),
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_values_and_gradients_are_those_of_pytorch(row) -> None:
    ours, theirs, inputs = ROWS[row]
    tensors = [torch.from_numpy(one).requires_grad_() for one in inputs]
    result = theirs(*tensors)
    # A weight for each element, so that no gradient is that of a plain sum.
    seed = normal(*result.shape, seed=9)
    (result * torch.from_numpy(np.asarray(seed))).sum().backward()

    def weighted(*given):
        y = ours(*given)
        return (y * ms.Tensor(np.asarray(seed))).sum(), y

    (_, value), gradients = ops.value_and_grad(weighted, tuple(range(len(inputs))), has_aux=True)(
        *map(ms.Tensor, inputs)
    )
    np.testing.assert_allclose(value.asnumpy(), result.detach().numpy(), rtol=1e-10, atol=1e-12)
    for gradient, tensor in zip(gradients, tensors, strict=True):
        np.testing.assert_allclose(gradient.asnumpy(), tensor.grad.numpy(), rtol=1e-10, atol=1e-12)


def test_batch_norm_keeps_the_moving_statistics_that_pytorch_keeps() -> None:
    """Ours keep ``momentum`` of what they were, PyTorch's take it of the new; both take the unbiased variance."""
    ours = nn.BatchNorm2d(3, momentum=0.8, dtype=ms.float64).set_train()
    theirs = torch.nn.BatchNorm2d(3, momentum=0.2).double()
    for seed in range(3):
        images = normal(4, 3, 5, 6, seed=seed) + 2.0
        found, expected = ours(ms.Tensor(images)), theirs(torch.from_numpy(images))
        np.testing.assert_allclose(found.asnumpy(), expected.detach().numpy(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(ours.moving_mean.asnumpy(), theirs.running_mean.numpy(), rtol=1e-12)
    np.testing.assert_allclose(ours.moving_variance.asnumpy(), theirs.running_var.numpy(), rtol=1e-12)
    evaluated = ours.set_train(False)(ms.Tensor(images)).asnumpy()
    np.testing.assert_allclose(evaluated, theirs.eval()(torch.from_numpy(images)).detach().numpy(), rtol=1e-10)


def adam_of_the_paper(parameters):
    """Adam whose epsilon, as in ours, is added before the corrections; in PyTorch's it is added after, so 0 in both."""
    return torch.optim.Adam(parameters, 0.05, eps=0.0, weight_decay=0.1)


OPTIMIZERS = {
    "SGD": (
        lambda p: nn.SGD(p, 0.1, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.1),
    ),
    "SGD with momentum and dampening": (
        lambda p: nn.SGD(p, 0.1, 0.9, dampening=0.3),
        lambda p: torch.optim.SGD(p, 0.1, 0.9, dampening=0.3),
    ),
    "SGD of Nesterov": (
        lambda p: nn.SGD(p, 0.1, 0.9, nesterov=True),
        lambda p: torch.optim.SGD(p, 0.1, 0.9, nesterov=True),
    ),
    "Momentum": (
        lambda p: nn.Momentum(p, 0.1, 0.9, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, 0.1, 0.9, weight_decay=0.1),
    ),
    "Adam": (lambda p: nn.Adam(p, 0.05, eps=1e-300, weight_decay=0.1), adam_of_the_paper),
}


def ten_steps(make_ours, make_theirs):
    """Return both weights after each of ten steps on the loss ``sum(curvature * (w - target) ** 2)``."""
    start, target, curvature = normal(5, 4), normal(5, 4, seed=1), np.abs(normal(5, 4, seed=2))
    ours = Parameter(start.copy(), "weight")
    optimizer = make_ours([ours])
    theirs = torch.nn.Parameter(torch.from_numpy(start.copy()))
    peer = make_theirs([theirs])
    gradient_of = ops.grad(lambda: (ms.Tensor(curvature) * (ours - target) ** 2).sum(), None, ours)
    found, expected = [], []
    for _ in range(10):
        optimizer((gradient_of(),))
        peer.zero_grad()
        (torch.from_numpy(curvature) * (theirs - torch.from_numpy(target)) ** 2).sum().backward()
        peer.step()
        found.append(np.array(ours.asnumpy()))
        expected.append(theirs.detach().numpy().copy())
    return np.array(found), np.array(expected)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_ten_steps_of_an_optimizer_are_those_of_pytorch(name) -> None:
    """Rates and powers are float32 in ours, as in MindSpore, where ``1 - 0.999`` has four digits."""
    found, expected = ten_steps(*OPTIMIZERS[name])
    assert np.abs(expected[-1] - expected[0]).max() > 0.1
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_adam_with_decoupled_decay_is_pytorchs_without_the_correction_of_bias() -> None:
    """MindSpore's AdamWeightDecay corrects no bias: PyTorch's AdamW does, by a rate of its own in each step."""
    beta1, beta2, rate, decay = 0.9, 0.99, 0.02, 0.1

    def make_theirs(parameters):
        optimizer = torch.optim.AdamW(parameters, rate, (beta1, beta2), eps=0.0, weight_decay=0.0)
        plain_step, count = optimizer.step, 0

        def step():
            nonlocal count
            count += 1
            # What AdamW divides by here, ours does not; and its decay is by the plain rate.
            group = optimizer.param_groups[0]
            group["lr"] = rate * (1 - beta1**count) / (1 - beta2**count) ** 0.5
            with torch.no_grad():
                decayed = [one.clone() * rate * decay for one in parameters]
                plain_step()
                for one, part in zip(parameters, decayed, strict=True):
                    one -= part

        optimizer.step = step
        return optimizer

    found, expected = ten_steps(
        lambda p: nn.AdamWeightDecay(p, rate, beta1, beta2, eps=1e-300, weight_decay=decay), make_theirs
    )
    assert np.abs(expected[-1] - expected[0]).max() > 0.1
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
