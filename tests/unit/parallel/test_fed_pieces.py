"""Ranks that are fed a piece of each input, cut in any dim, train as one that is fed all of it."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import Model, context, nn
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ConfigurationError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.parallel.fed_pieces import fed_shapes, global_shapes, input_layout

ROWS, WIDTH, STEPS = 4, 8, 3


class Images(nn.Cell):
    """A convolution, so that what lies on both sides of a cut is needed."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(2, 3, 3)
        self.dense = nn.Dense(3 * 4 * WIDTH, 5)

    def construct(self, x):
        x = self.convolution(x)
        return self.dense(x.reshape((ROWS, -1)))


def data():
    random = np.random.default_rng(4)
    images = random.normal(size=(STEPS * ROWS, 2, 4, WIDTH)).astype(np.float32)
    return images, random.integers(0, 5, STEPS * ROWS).astype(np.int32)


def piece(array, cuts, rank):
    """The piece of each batch that a rank is fed, by NumPy alone."""
    place = np.unravel_index(rank, cuts)
    batches = array.reshape(STEPS, ROWS, *array.shape[1:])
    parts = [
        slice(index * (n // cut), (index + 1) * (n // cut))
        for index, cut, n in zip(place, cuts, batches.shape[1:], strict=True)
    ]
    found = batches[(slice(None), *parts)]
    return found.reshape(-1, *found.shape[2:])


def train(communicator, strategy):
    context.set_seed(5)
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", dataset_strategy=strategy)
    ranks = [communicator.rank if np.prod(cuts) > 1 else 0 for cuts in strategy]
    fed = [piece(*three) for three in zip(data(), strategy, ranks, strict=True)]
    rows = [len(array) // STEPS for array in fed]
    batches = [[array[step * n : (step + 1) * n] for array, n in zip(fed, rows, strict=True)] for step in range(STEPS)]
    network = Images()
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    model = Model(network, loss, nn.Momentum(network.trainable_params(), 0.1, 0.9))
    losses = [float(model.run_step(batch).asnumpy()) for batch in batches]
    return losses, {one.name: one.asnumpy() for one in network.get_parameters()}


@pytest.mark.parametrize(
    "strategy",
    [((1, 1, 1, 4), (1,)), ((1, 1, 2, 2), (4,)), ((2, 2, 1, 1), (1,)), ((4, 1, 1, 1), (1,)), ((1, 1, 1, 1), (4,))],
)
def test_ranks_that_are_fed_pieces_train_as_one_that_is_fed_all(strategy) -> None:
    expected, weights = run_world(1, train, ((1, 1, 1, 1), (1,)))[0]
    for losses, found in run_world(4, train, strategy):
        np.testing.assert_allclose(losses, expected, rtol=1e-5)
        for name, value in weights.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def cut(cuts):
    return ParallelConfiguration("semi_auto_parallel", 4, full_batch=False, input_cuts=cuts)


def test_pieces_make_up_the_whole_in_the_order_of_ranks() -> None:
    configuration = cut(((2, 1, 2), (1,)))
    assert global_shapes([(3, 5, 2), (7,)], configuration) == [(6, 5, 4), (7,)]
    assert fed_shapes([(6, 5, 4), (7,)], configuration) == [(3, 5, 2), (7,)]
    layout = input_layout(0, (6, 5, 4), DeviceMatrix((4,)), configuration)
    assert [layout.box(rank).start for rank in range(4)] == [(0, 0, 0), (0, 0, 2), (3, 0, 0), (3, 0, 2)]


@pytest.mark.parametrize("shapes", [[(3, 5), (7,)], [(3, 5, 2), (7,), (1,)]])
def test_an_input_without_cuts_is_refused(shapes) -> None:
    with pytest.raises(ConfigurationError, match="give the cuts of every input, a number for each dim"):
        global_shapes(shapes, cut(((2, 1, 2), (1,))))
