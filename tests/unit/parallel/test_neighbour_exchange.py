"""Height and width cut: what passes between neighbours, and whole networks cut so, against one rank."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.communication.threads import alone, run_world
from mpiparallel.compile.bind import bind
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.models.resnet import Residual, ResNet
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.testing.case_strategies import LaidOutCase, run_case
from mpiparallel.testing.operator_case import OperatorCase
from tests.conformance.cases.operator_inputs import floats

IMAGES = np.random.default_rng(0).normal(size=(4, 3, 31, 36))
LABELS = np.random.default_rng(1).integers(0, 4, 4).astype(np.int32)


class Counting:
    """A communicator that adds up the bytes that it and its groups send in exchanges of blocks."""

    def __init__(self, communicator, sent=None):
        self._communicator = communicator
        self.sent = [] if sent is None else sent

    def __getattr__(self, name):
        return getattr(self._communicator, name)

    def labelled(self, label):
        return self

    def group(self, ranks):
        return Counting(self._communicator.group(ranks), self.sent)

    def all_to_all_v(self, source, source_counts, target, target_counts):
        self.sent.append((self.ranks, sum(source_counts)))
        self._communicator.all_to_all_v(source, source_counts, target, target_counts)

    def exchange(self, sends, receives):
        self.sent.append((self.ranks, sum(block.nbytes for block in sends.values())))
        self._communicator.exchange(sends, receives)


def counted(communicator, case, strategy):
    """Return the groups of a rank's exchanges and the bytes it sent, where inputs and outputs stay as they are cut."""
    counting, laid_out = Counting(communicator), LaidOutCase.of(case, [strategy], communicator.size)
    configuration = ParallelConfiguration(
        mode=ParallelMode.SEMI_AUTO_PARALLEL, device_num=communicator.size, rank=communicator.rank
    )
    sharded = laid_out.sharded
    sharded.output_layouts.update({value: sharded.layouts[value].reduced() for value in sharded.graph.outputs})
    local = local_graph(sharded, communicator.rank)
    bind(StagedGraph((sharded,)), local, configuration, counting).run(laid_out.fed(communicator.rank))
    return counting.sent


def convolution(x, weight, **options) -> OperatorCase:
    arrays = floats(*x), floats(*weight, seed=2)
    return OperatorCase("Conv2D", lambda: ops.Conv2D(weight[0], weight[2:], **options), arrays, (), (0, 1))


def test_a_convolution_and_its_gradients_pass_each_row_of_a_border_once() -> None:
    case = convolution((2, 3, 8, 6), (4, 3, 3, 3), pad_mode="same")
    ranks = run_world(4, counted, case, ((1, 1, 4, 1), (1, 1, 1, 1)))
    borders, row = 3, 2 * 6 * 8
    assert sum(count for sent in ranks for _, count in sent) == 2 * borders * row * (3 + 4)


def test_only_ranks_along_the_cut_exchange_and_each_corner_reaches_its_three_neighbours() -> None:
    case = convolution((4, 2, 8, 8), (2, 2, 3, 3), pad_mode="same")
    ranks = run_world(8, counted, case, ((2, 1, 2, 2), (1, 1, 1, 1)))
    elements_of_one_image = 2 * (8 + 8) + 4
    assert sum(count for sent in ranks for _, count in sent) == 4 * 2 * elements_of_one_image * 8 * 2
    assert {group for group, _ in ranks[5]} == {(4, 5, 6, 7)}


def test_windows_that_end_at_the_cuts_exchange_nothing() -> None:
    pooling = OperatorCase("MaxPool", lambda: ops.MaxPool(2, 2), (floats(2, 3, 8, 4),), (), (0,))
    pointwise = convolution((2, 3, 8, 4), (4, 3, 1, 1))
    assert run_world(4, counted, pooling, ((1, 1, 2, 2),)) == [[]] * 4
    assert run_world(4, counted, pointwise, ((1, 1, 2, 2), (1, 1, 1, 1))) == [[]] * 4


def cut_images(cell: nn.Cell, cuts: tuple[int, int, int, int]) -> None:
    """Cut the images of all layers of a cell alike."""
    channels = (cuts[1],)
    for layer in cell.cells_and_names():
        one = layer[1]
        if isinstance(one, nn.Conv2d):
            one.conv2d.shard((cuts, (1, cuts[1], 1, 1)))
        elif isinstance(one, nn.BatchNorm2d):
            one.bn_train.shard((cuts, channels, channels, channels, channels))
        elif isinstance(one, nn.ReLU):
            one.relu.shard((cuts,))
        elif isinstance(one, nn.MaxPool2d):
            one.max_pool.shard((cuts,))
        elif isinstance(one, Residual):
            one.add.shard((cuts, cuts))


def train_resnet(_communicator, cuts, to_the_end):
    ms.set_seed(2)
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    network = ResNet((2, 2, 2, 2), 4, widths=(4, 6, 8, 8), dtype=ms.float64)
    blocks = list(network.stages.cells())
    for cell in (network.stem, network.pool, *(blocks if to_the_end else blocks[:5])):
        cut_images(cell, cuts)
    if to_the_end:
        network.mean.shard((cuts,))
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.Momentum(network.trainable_params(), 0.05, 0.9)
    step = nn.TrainOneStepCell(nn.WithLossCell(network, loss), optimizer).set_train()
    losses = [float(step(ms.Tensor(IMAGES), ms.Tensor(LABELS))) for _ in range(3)]
    return losses, [(one.name, one.box, one.asnumpy().copy()) for one in network.get_parameters()]


@cache
def on_one_rank(train, *options):
    """Return the losses and parameters of a training whose images are not cut."""
    return run_world(1, train, (1, 1, 1, 1), *options)[0]


def compare(trained, whole) -> None:
    """Raise unless losses are those of one rank, and parameters its parts."""
    losses, parameters = trained
    np.testing.assert_allclose(losses, whole[0], rtol=1e-9)
    for (name, box, found), (_, outer, wanted) in zip(parameters, whole[1], strict=True):
        np.testing.assert_allclose(found, wanted[box.within(outer)], rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(
    ("ranks", "cuts", "to_the_end"),
    [(2, (1, 1, 2, 1), False), (4, (1, 1, 4, 1), False), (4, (2, 1, 1, 2), False), (4, (1, 1, 2, 2), True)],
)
def test_a_residual_network_cut_along_height_and_width_trains_as_on_one_rank(ranks, cuts, to_the_end) -> None:
    for trained in run_world(ranks, train_resnet, cuts, to_the_end):
        compare(trained, on_one_rank(train_resnet, True))


class Flattened(nn.Cell):
    """Overlapping windows after overlapping windows, with fewer rows than ranks at the end, then rows of features."""

    def __init__(self, cuts) -> None:
        super().__init__()
        options = {"dtype": ms.float64, "weight_init": "he_normal"}
        self.first = nn.Conv2d(3, 4, (5, 3), (2, 1), "pad", (3, 1, 0, 2), dilation=(2, 1), **options)
        self.second = nn.Conv2d(4, 6, 3, (3, 2), "valid", group=2, has_bias=True, **options)
        self.largest, self.mean = nn.MaxPool2d(3, 2, "same"), nn.AvgPool2d(2, 1)
        self.flatten, self.dense = nn.Flatten(), nn.Dense(24, 4, weight_init="he_normal", dtype=ms.float64)
        cut_images(self.first, cuts)
        cut_images(self.largest, cuts)
        self.second.conv2d.shard((cuts, (cuts[1], 1, 1, 1)))
        self.second.bias_add.shard((cuts, (cuts[1],)))
        self.mean.avg_pool.shard((cuts,))

    def construct(self, x):
        return self.dense(self.flatten(self.mean(self.largest(self.second(self.first(x))))))


def train_flattened(_communicator, cuts):
    ms.set_seed(3)
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    network = Flattened(cuts)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.SGD(network.trainable_params(), 0.1)
    step = nn.TrainOneStepCell(nn.WithLossCell(network, loss), optimizer).set_train()
    losses = [float(step(ms.Tensor(IMAGES[..., :19]), ms.Tensor(LABELS))) for _ in range(3)]
    return losses, [(one.name, one.box, one.asnumpy().copy()) for one in network.get_parameters()]


@pytest.mark.parametrize(
    ("ranks", "cuts"),
    [(2, (1, 1, 2, 1)), (3, (1, 1, 3, 1)), (6, (1, 1, 6, 1)), (6, (1, 2, 1, 3)), (8, (1, 2, 2, 2)), (8, (1, 1, 8, 1))],
)
def test_windows_larger_than_the_parts_and_what_makes_rows_of_them_train_as_on_one_rank(ranks, cuts) -> None:
    whole = on_one_rank(train_flattened)
    assert whole[0][-1] < whole[0][0]
    for trained in run_world(ranks, train_flattened, cuts):
        compare(trained, whole)


def test_an_image_that_is_a_parameter_is_stored_as_it_is_cut_not_as_it_is_read() -> None:
    def on_rank(communicator):
        ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
        cell = nn.Cell()
        cell.image = ms.Parameter(floats(1, 1, 8, 4), "image")
        cell.operator = ops.Conv2D(1, 3, pad_mode="same").shard(((1, 1, 2, 1), (1, 1, 1, 1)))
        cell.construct = lambda weight: cell.operator(cell.image, weight)
        return cell(ms.Tensor(floats(1, 1, 3, 3, seed=2))).asnumpy(), cell.image.box.shape

    (expected,) = run_case(alone(), convolution((1, 1, 8, 4), (1, 1, 3, 3), pad_mode="same"), None)[:1]
    for result, shape in run_world(2, on_rank):
        assert shape == (1, 1, 4, 4)
        np.testing.assert_allclose(result, expected)
