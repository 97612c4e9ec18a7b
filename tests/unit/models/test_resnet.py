"""ResNet: shapes, sizes, and the same training on any number of ranks."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn
from mpiparallel.communication.threads import run_world
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.models.resnet import ResNet, resnet18, resnet50

IMAGES = np.random.default_rng(0).normal(size=(6, 3, 32, 32))
LABELS = np.random.default_rng(1).integers(0, 4, 6).astype(np.int32)


@pytest.mark.parametrize(
    ("network", "millions"), [(resnet18, 11.18), (resnet50, 23.53)], ids=["ResNet-18", "ResNet-50"]
)
def test_the_networks_have_their_published_sizes_without_the_1000_classes(network, millions) -> None:
    """11.69 and 25.56 million with 1,000 classes; 10 classes have 990 fewer rows of 512 and 2,048, and biases."""
    made = network(num_classes=10)
    assert round(sum(one.size for one in made.trainable_params()) / 1e6, 2) == millions


def test_each_stage_but_the_first_halves_the_images_in_its_first_block() -> None:
    """The sizes are those of the paper's table: 56, 28, 14 and 7 of 224 pixels, here of 64."""
    network = ResNet((2, 2, 1, 2), 4, widths=(4, 4, 4, 4))
    images = network.pool(network.stem(ms.Tensor(np.zeros((1, 3, 64, 64), np.float32))))
    sizes = [images.shape[2:]]
    for block in network.stages:
        images = block(images)
        sizes.append(images.shape[2:])
    assert sizes == [(16, 16)] * 3 + [(8, 8)] * 2 + [(4, 4)] + [(2, 2)] * 2


def train(_communicator, mode):
    ms.set_seed(2)
    ms.set_auto_parallel_context(parallel_mode=mode, full_batch=True)
    network = ResNet((1, 1, 1, 1), 4, expansion=2, widths=(4, 6, 8, 8), dtype=ms.float64)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.Momentum(network.trainable_params(), 0.05, 0.9)
    step = nn.TrainOneStepCell(nn.WithLossCell(network, loss), optimizer).set_train()
    losses = [float(step(ms.Tensor(IMAGES), ms.Tensor(LABELS))) for _ in range(4)]
    moving = [one.asnumpy().copy() for one in network.get_parameters() if "moving" in one.name]
    return losses, moving


def test_training_and_moving_averages_on_ranks_are_those_of_one_rank() -> None:
    ((expected, moving),) = run_world(1, train, "semi_auto_parallel")
    assert expected[-1] < expected[0]
    for ranks in (2, 3, 4):
        for losses, found in run_world(ranks, train, "semi_auto_parallel"):
            np.testing.assert_allclose(losses, expected, rtol=1e-9)
            for one, wanted in zip(found, moving, strict=True):
                np.testing.assert_allclose(one, wanted, rtol=1e-9, atol=1e-12)


def test_in_data_parallel_mode_statistics_are_each_ranks_own_and_weights_shared() -> None:
    def on_rank(communicator):
        ms.set_seed(2)
        ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
        network = ResNet((1, 1, 1, 1), 4, widths=(4, 4, 4, 4), dtype=ms.float64)
        loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
        optimizer = nn.Momentum(network.trainable_params(), 0.05, 0.9)
        step = nn.TrainOneStepCell(nn.WithLossCell(network, loss), optimizer).set_train()
        own = slice(3 * communicator.rank, 3 * communicator.rank + 3)
        step(ms.Tensor(IMAGES[own]), ms.Tensor(LABELS[own]))
        return {one.name: one.asnumpy().copy() for one in network.get_parameters()}

    first, second = run_world(2, on_rank)
    for name, value in first.items():
        assert np.array_equal(value, second[name]) == ("moving" not in name), name


@pytest.mark.parametrize("mode", ["data_parallel", "semi_auto_parallel"])
def test_an_evaluation_before_and_between_the_steps_changes_nothing(mode) -> None:
    """Moving averages are each rank's own in data parallel mode; evaluating once took the programs apart from them."""

    def on_rank(communicator, evaluated):
        ms.set_seed(2)
        full_batch = {"full_batch": True} if mode == "semi_auto_parallel" else {}
        ms.set_auto_parallel_context(parallel_mode=mode, gradients_mean=True, **full_batch)
        network = ResNet((1, 1, 1, 1), 4, widths=(4, 4, 4, 4), dtype=ms.float64)
        loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
        model = ms.Model(network, loss, nn.Momentum(network.trainable_params(), 0.05, 0.9))
        model.train_network.set_train()
        own = slice(0, 6) if full_batch else slice(3 * communicator.rank, 3 * communicator.rank + 3)
        outputs = []
        for _ in range(3):
            if evaluated:
                outputs.append(model.predict(ms.Tensor(IMAGES)).asnumpy())
            model.run_step([IMAGES[own], LABELS[own]])
        outputs.append(model.predict(ms.Tensor(IMAGES)).asnumpy())
        return outputs, {one.name: one.asnumpy().copy() for one in network.get_parameters()}

    evaluated, plain = run_world(2, on_rank, True), run_world(2, on_rank, False)
    for (outputs, found), (last, expected) in zip(evaluated, plain, strict=True):
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)
        np.testing.assert_array_equal(outputs[-1], last[-1])
        assert all(not np.allclose(one, outputs[-1]) for one in outputs[:-1])


def test_with_a_last_gamma_of_zeros_blocks_begin_as_their_inputs() -> None:
    ms.set_seed(2)
    network = ResNet((2,), 4, widths=(4,), dtype=ms.float64, last_gamma="zeros").set_train(False)
    before = network.pool(network.stem(ms.Tensor(IMAGES))).asnumpy()
    np.testing.assert_array_equal(network.stages(ms.Tensor(before)).asnumpy(), before)


@pytest.mark.parametrize("make", [resnet18, resnet50])
def test_the_tutorials_networks_begin_with_blocks_that_are_the_identity(make) -> None:
    last = [block.body[-1].gamma.asnumpy() for block in make(num_classes=4).stages]
    assert all((one == 0.0).all() for one in last)
    assert all((block.body[-1].gamma.asnumpy() == 1.0).all() for block in make(last_gamma="ones").stages)


def test_no_gradient_of_the_images_is_computed() -> None:
    network = ResNet((1, 1, 1, 1), 4, expansion=2, widths=(4, 6, 8, 8), dtype=ms.float64)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.Momentum(network.trainable_params(), 0.05, 0.9)
    step = nn.TrainOneStepCell(nn.WithLossCell(network, loss), optimizer).set_train()
    graph = local_graph(step.sharded_graph(ms.Tensor(IMAGES), ms.Tensor(LABELS)), 0)
    count = Counter(node.operator.name for node in graph.nodes)
    assert count["Conv2D"] == count["Conv2DBackpropFilter"] == count["Conv2DBackpropInput"] + 1
    assert not any(
        node.operator.name == "Conv2DBackpropInput" and node.outputs[0].spec.shape == IMAGES.shape
        for node in graph.nodes
    )
