"""The blocks of ResNet: which convolutions they have, where they begin as the identity, what leads around them."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import Tensor, nn, ops
from mpiparallel.dtype import float64
from mpiparallel.models.resnet import Residual, ResNet, resnet18, resnet50

X = np.random.default_rng(79).normal(size=(2, 4, 6, 6))


def kernels(cell: nn.Cell) -> list[tuple[int, ...]]:
    return [one.shape for one in cell.trainable_params() if one.ndim == 4]


@pytest.mark.parametrize(
    ("expansion", "wanted"),
    [
        (1, [(6, 4, 3, 3), (6, 6, 3, 3), (6, 4, 1, 1), (6, 6, 3, 3), (6, 6, 3, 3)]),
        (2, [(6, 8, 1, 1), (6, 6, 3, 3), (12, 6, 1, 1), (12, 8, 1, 1), (6, 12, 1, 1), (6, 6, 3, 3), (12, 6, 1, 1)]),
    ],
)
def test_a_stage_has_the_convolutions_of_the_paper(expansion: int, wanted: list[tuple[int, ...]]) -> None:
    network = ResNet((1, 2, 1, 1), 5, expansion, widths=(4, 6, 8, 8))
    assert kernels(network.stem) == [(4, 3, 7, 7)]
    assert [shape for block in (network.stages[1], network.stages[2]) for shape in kernels(block)] == wanted
    assert network.dense.weight.shape == (5, 8 * expansion)
    # The input of a block is added as it is where it has the shape of the output.
    assert [block.projection is None for block in network.stages] == [expansion == 1, False, True, False, False]


@pytest.mark.parametrize(("network", "blocks"), [(resnet18, (2, 2, 2, 2)), (resnet50, (3, 4, 6, 3))])
def test_a_network_has_the_blocks_of_its_name(network: type[ResNet], blocks: tuple[int, ...]) -> None:
    made = network(num_classes=3)
    assert len([*made.stages]) == sum(blocks)
    assert made.dense.weight.shape == (3, 512 * (1 if network is resnet18 else 4))
    widths = [kernels(block)[0][0] for block in made.stages]
    assert widths == [width for width, count in zip((64, 128, 256, 512), blocks, strict=True) for _ in range(count)]
    assert network().dense.bias.shape == ResNet((1,), widths=(2,)).dense.bias.shape == (10,)
    gammas = [one.asnumpy() for one in made.stages[0].trainable_params() if "gamma" in one.name]
    last = 1 if network is resnet18 else 2
    assert [bool(one.any()) for one in gammas[: last + 1]] == [True] * last + [False]


@pytest.mark.parametrize("stride", [1, 2])
def test_a_block_whose_last_scale_is_zero_gives_what_leads_around_it(stride: int) -> None:
    block = Residual(4, [(4, 3, stride), (4, 3, 1)], float64, "zeros")
    around = X if block.projection is None else block.projection(Tensor(X)).asnumpy()
    assert (block.projection is None) == (stride == 1)
    np.testing.assert_allclose(block(Tensor(X)).asnumpy(), np.maximum(around, 0), rtol=1e-12)


def test_between_convolutions_what_is_negative_is_cut_off_and_after_the_last_only_once_all_is_added() -> None:
    block = Residual(4, [(4, 1, 1), (4, 1, 1), (4, 1, 1)], float64)
    found = block(Tensor(X)).asnumpy()
    layers = [cell for cell in block.body if not isinstance(cell, nn.ReLU)]
    y = Tensor(X)
    for place in range(0, 6, 2):
        y = layers[place + 1](layers[place](y))
        y = ops.ReLU()(y) if place < 4 else y
    np.testing.assert_allclose(found, np.maximum(y.asnumpy() + X, 0), rtol=1e-12)
    assert (y.asnumpy() < 0).any()


def test_a_network_is_its_stem_its_stages_a_mean_and_a_dense_layer() -> None:
    network = ResNet((1, 1, 1, 1), 3, widths=(2, 2, 2, 2), dtype=float64)
    images = Tensor(np.random.default_rng(83).normal(size=(2, 3, 32, 32)))
    features = network.stages(network.pool(network.stem(images))).asnumpy()
    assert features.shape == (2, 2, 1, 1)
    weight, bias = network.dense.weight.asnumpy(), network.dense.bias.asnumpy()
    np.testing.assert_allclose(network(images).asnumpy(), features.mean((2, 3)) @ weight.T + bias, rtol=1e-9)
