"""Losses, gradients and moving averages of whole networks, on the same weights and batch, against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="make test-interop installs PyTorch")

from training_step import torch_networks  # noqa: E402

import mpiparallel as ms  # noqa: E402
from mpiparallel import nn, ops  # noqa: E402
from mpiparallel.models.resnet import resnet50  # noqa: E402
from mpiparallel.models.translation import TranslationConfig, TranslationNetwork  # noqa: E402
from mpiparallel.nn.transformer import TransformerOpParallelConfig  # noqa: E402
from tests.interop.weights import carry_over, relative_errors, resnet_place, transformer_place  # noqa: E402

pytestmark = pytest.mark.interop


def random_values(network):
    """Give all parameters values that matter, none special; weights keep the size of what a layer passes on."""
    generator = np.random.default_rng(3)
    for parameter in network.get_parameters():
        inputs = parameter.size // parameter.shape[0]
        values = generator.normal(0.0, 0.1 if parameter.ndim < 2 else (2.0 / inputs) ** 0.5, parameter.shape)
        ones = parameter.name.endswith(("gamma", "moving_variance"))
        parameter.set_data(np.abs(values + 1.0) if ones else values)


def keep_from_zero(network):
    """Give all batch norms values that keep what a ReLU sees from 0: some channels pass it, some only now and then.

    At 0 a rounding error decides whether a gradient passes, and few such places change the gradients of ResNet-50 by
    more than all other rounding errors.
    """
    generator = np.random.default_rng(4)
    for parameter in network.get_parameters():
        inner = parameter.name.split(".")[-2] in ("1", "4") and "body" in parameter.name
        if parameter.name.endswith("gamma"):
            parameter.set_data(parameter.asnumpy() * 0.5)
        elif parameter.name.endswith("beta"):
            signs = generator.choice([-1.0, 1.0], parameter.shape, p=[0.3, 0.7]) if inner else 1.0
            parameter.set_data(parameter.asnumpy() + 2.0 * signs)


def values_of(network):
    return {parameter.name: np.array(parameter.asnumpy()) for parameter in network.get_parameters()}


def our_gradients(network, function, inputs):
    weights = network.trainable_params()
    loss, gradients = ops.value_and_grad(function, None, weights)(*map(ms.Tensor, inputs))
    named = zip(weights, gradients, strict=True)
    return float(loss), {weight.name: gradient.asnumpy() for weight, gradient in named}


def peer_gradients(peer, places):
    parameters = dict(peer.named_parameters())
    return {name: place.of(parameters[place.name].grad).numpy() for name, place in places.items()}


def by_batch_norm(gradients):
    """Return the gradients with the two vectors of each batch norm as one array.

    The gradient of beta is all but 0 where the next ReLU passes a whole channel: the next batch norm takes it out.
    """
    joined = {name: one for name, one in gradients.items() if not name.endswith((".gamma", ".beta"))}
    norms = [name.removesuffix(".gamma") for name in gradients if name.endswith(".gamma")]
    pairs = {norm: [gradients[f"{norm}.gamma"], gradients[f"{norm}.beta"]] for norm in norms}
    return joined | {norm: np.concatenate(pair) for norm, pair in pairs.items()}


def report(figure, what, errors):
    worst = max(errors, key=errors.__getitem__)
    median = float(np.median(list(errors.values())))
    figure(f"{what}: {len(errors)} gradients, relative error {median:.1e} (median) to {errors[worst]:.1e} ({worst})")


@pytest.mark.parametrize(
    ("dtype", "prepare", "promised"),
    [(ms.float32, keep_from_zero, 1e-4), (ms.float64, lambda network: None, 1e-9)],
    ids=["float32", "float64"],
)
def test_gradients_of_resnet_50_are_those_of_pytorch(dtype, prepare, promised, figure) -> None:
    generator = np.random.default_rng(0)
    images = generator.normal(size=(16, 3, 64, 64)).astype(dtype)
    labels = generator.integers(0, 10, 16).astype(np.int32)
    network = resnet50(num_classes=10, dtype=dtype).set_train()
    random_values(network)
    prepare(network)
    values = values_of(network)
    places = {name: resnet_place(name) for name in values}
    loss_function = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    loss, gradients = our_gradients(network, lambda x, y: loss_function(network(x), y), (images, labels))

    peer = torch_networks.ResNet50(same=True).to(torch.from_numpy(images).dtype)
    carry_over(values, places, peer.state_dict())
    theirs = torch.nn.functional.cross_entropy(peer(torch.from_numpy(images)), torch.from_numpy(labels).long())
    theirs.backward()
    assert loss == pytest.approx(theirs.item(), rel=promised / 10)
    expected = peer_gradients(peer, {name: places[name] for name in gradients})
    errors = relative_errors(by_batch_norm(gradients), by_batch_norm(expected))
    report(figure, f"ResNet-50, {np.dtype(dtype)}", errors)
    assert max(errors.values()) < promised

    state = peer.state_dict()
    moving = {name: value for name, value in values_of(network).items() if "moving" in name}
    assert len(moving) == 2 * 53
    for name, value in moving.items():
        expected = state[places[name].name].numpy()
        np.testing.assert_allclose(value, expected, rtol=promised, atol=promised / 10, err_msg=name)


SIZES = {"vocab_size": 200, "hidden_size": 64, "num_heads": 4, "encoder_layers": 2, "decoder_layers": 2}


def translation_batch():
    """Return a batch in which some targets are padding and some sources are masked."""
    generator = np.random.default_rng(1)
    batch, source, target = 6, 9, 7
    targets = generator.integers(2, 200, (batch, target)).astype(np.int32)
    targets[2:, -2:] = 1
    source_mask, memory_mask = (
        np.ones((batch, source, source), np.float32),
        np.ones((batch, target, source), np.float32),
    )
    source_mask[0, :, -3:] = memory_mask[0, :, -3:] = 0
    return (
        generator.integers(2, 200, (batch, source)).astype(np.int32),
        np.tile(np.arange(source, dtype=np.int32), (batch, 1)),
        source_mask,
        targets,
        np.tile(np.arange(target, dtype=np.int32), (batch, 1)),
        memory_mask,
        generator.integers(0, 200, (batch, target)).astype(np.int32),
    )


def test_gradients_of_the_transformer_are_those_of_pytorch(figure) -> None:
    batch = translation_batch()
    config = TranslationConfig(batch_size=6, source_length=9, target_length=7, dropout_rate=0.0, **SIZES)
    network = TranslationNetwork(config, TransformerOpParallelConfig()).set_train()
    random_values(network)
    values = values_of(network)
    places = {name: transformer_place(name) for name in values}
    loss, gradients = our_gradients(network, network, batch)

    peer = torch_networks.Translator(200, (9, 7), 64, 4, (2, 2))
    carry_over(values, places, peer.state_dict())
    theirs = peer(*(torch.from_numpy(column) for column in batch))
    theirs.backward()
    assert loss == pytest.approx(theirs.item(), rel=1e-5)
    expected = peer_gradients(peer, {name: places[name] for name in gradients})
    # A bias that all keys share moves all scores of a query alike, and softmax takes no notice: its gradient is 0.
    keys = {name for name in gradients if name.endswith("dense2.bias")}
    assert len(keys) == 6
    for name in keys:
        of_values = gradients[name.replace("dense2", "dense3")]
        assert np.linalg.norm(gradients[name]) < 1e-6 * np.linalg.norm(of_values)
    errors = relative_errors({name: one for name, one in gradients.items() if name not in keys}, expected)
    report(figure, "Transformer, float32", errors)
    assert max(errors.values()) < 1e-4
