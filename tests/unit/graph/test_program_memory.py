"""A program that is dropped lets go of its arrays at once: they are most of a host's memory."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from mpiparallel import Model, nn
from mpiparallel.graph.tensor import Tensor
from mpiparallel.models.resnet import ResNet
from mpiparallel.nn.transformer import TransformerEncoder


class Encoder(nn.Cell):
    """One layer of a Transformer with dropout, and the mean of what it gives."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = TransformerEncoder(2, 1, 16, 32, 4, num_heads=2)

    def construct(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.encoder(x, mask)[0].mean()


def encoder() -> tuple[Model, list[Any]]:
    network = Encoder()
    model = Model(network, optimizer=nn.AdamWeightDecay(network.trainable_params()))
    return model, [np.ones((2, 4, 16), np.float32), np.ones((2, 4, 4), np.float32)]


def images() -> tuple[Model, list[Any]]:
    network = ResNet((1, 1, 1, 1), 4)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    model = Model(network, loss, nn.Momentum(network.trainable_params(), 0.1, 0.9))
    return model, [np.ones((2, 3, 32, 32), np.float32), np.zeros(2, np.int32)]


@pytest.mark.parametrize("make", [encoder, images])
def test_a_program_that_is_dropped_frees_the_arrays_of_its_parameters_without_the_collector(make, monkeypatch) -> None:
    monkeypatch.setenv("MPIPARALLEL_JIT", "0")
    model, batch = make()
    model.run_step(batch)
    parameters = list(model.train_network.get_parameters())
    arrays = [weakref.ref(one.array) for one in parameters]
    gc.disable()
    try:
        model.train_network.forget_programs()
        for parameter in parameters:
            parameter.leave()
        assert not [one.name for one, array in zip(parameters, arrays, strict=True) if array() is not None]
    finally:
        gc.enable()
