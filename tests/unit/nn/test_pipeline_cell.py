"""A network that takes a batch in pieces computes what it computes on the whole."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import Tensor, context, nn, ops
from mpiparallel.errors import ConfigurationError, TraceError
from mpiparallel.nn.wrap.layer_stages import put_by_cost
from mpiparallel.parallel.configuration import ParallelConfiguration

ROWS = np.random.default_rng(0).normal(size=(12, 6))
LABELS = np.random.default_rng(1).normal(size=(12, 4))


class Network(nn.Cell):
    def __init__(self, turned: bool = False) -> None:
        super().__init__()
        self.weight = nn.Dense(6, 4).to_float("float64")
        self.dropout = nn.Dropout(p=0.5)
        self.turned = turned

    def construct(self, x):
        y = self.weight(x)
        return self.dropout(y.transpose(1, 0)).transpose(1, 0) if self.turned else self.dropout(y)


class Pair(nn.Cell):
    def construct(self, x):
        return x * 2.0, (x.sum(1), x[:, 0])


class Reversed(nn.Cell):
    """A loss that takes the labels first, and is in no stage itself."""

    def __init__(self) -> None:
        super().__init__()
        self.network = Network()
        self.network.pipeline_stage = 1

    def construct(self, labels, x):
        return (ops.square(labels - self.network(x))).mean()


def loss_and_gradient(network, *inputs):
    weights = network.trainable_params()
    loss, gradients = ops.value_and_grad(network, None, weights)(*map(Tensor, inputs))
    return [loss.asnumpy(), *(one.asnumpy() for one in gradients)]


@pytest.mark.parametrize("micro_size", [1, 3, 4, 12])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_loss_gradients_and_masks_are_those_of_the_whole_batch(
    micro_size: int, training: bool, inside: bool, seeded
) -> None:
    network, loss = Network(), nn.MSELoss()
    expected = seeded(loss_and_gradient, nn.WithLossCell(network, loss).set_train(training), ROWS, LABELS)
    if inside:
        pieces = nn.PipelineCell(nn.WithLossCell(network, loss), micro_size)
    else:
        pieces = nn.WithLossCell(nn.PipelineCell(network, micro_size), loss)
    found = seeded(loss_and_gradient, pieces.set_train(training), ROWS, LABELS)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.fixture
def seeded():
    def run(function, *arguments):
        context.set_seed(5)
        return function(*arguments)

    return run


def test_behind_batch_norm_dropout_draws_the_masks_of_the_whole_batch(seeded) -> None:
    network = nn.SequentialCell(nn.BatchNorm1d(6, dtype=np.float64), nn.Dropout(p=0.5)).set_train()

    def kept(cell):
        return cell(Tensor(ROWS)).asnumpy() != 0

    whole, pieces = (seeded(kept, cell) for cell in (network, nn.PipelineCell(network, 3).set_train()))
    assert 0 < whole.sum() < whole.size
    np.testing.assert_array_equal(pieces, whole)


@pytest.mark.parametrize("recompute", [False, True])
def test_moving_averages_of_batch_norm_advance_once_a_micro_batch_in_order(recompute: bool) -> None:
    norm = nn.BatchNorm1d(6, momentum=0.75, dtype=np.float64)
    network = nn.SequentialCell(norm, nn.Dense(6, 4).to_float("float64"))
    if recompute:
        norm.recompute()
    pieces = nn.PipelineCell(nn.WithLossCell(network, nn.MSELoss()), 3)
    step = nn.TrainOneStepCell(pieces, nn.SGD(network.trainable_params(), 0.1)).set_train()
    step(Tensor(ROWS), Tensor(LABELS))
    mean, variance = np.zeros(6), np.ones(6)
    for rows in np.split(ROWS, 3):
        mean, variance = 0.75 * mean + 0.25 * rows.mean(0), 0.75 * variance + 0.25 * rows.var(0, ddof=1)
    np.testing.assert_allclose(norm.moving_mean.asnumpy(), mean, atol=1e-12)
    np.testing.assert_allclose(norm.moving_variance.asnumpy(), variance, atol=1e-12)


def test_outputs_with_rows_are_joined_and_a_rest_is_taken_in_fewer_pieces() -> None:
    network = Network()
    expected = network(Tensor(ROWS[:9])).asnumpy()
    np.testing.assert_allclose(nn.PipelineCell(network, 6)(Tensor(ROWS[:9])).asnumpy(), expected, rtol=1e-6)


@pytest.mark.parametrize(("reduction", "said"), [("mean", 0), ("sum", 1)])
def test_a_loss_that_is_a_sum_is_averaged_and_says_so(reduction: str, said: int, remarks) -> None:
    network = nn.WithLossCell(Network(), nn.MSELoss(reduction))
    found = nn.PipelineCell(network, 3)(Tensor(ROWS), Tensor(LABELS)).asnumpy()
    factor = 3 if said else 1
    np.testing.assert_allclose(found * factor, network(Tensor(ROWS), Tensor(LABELS)).asnumpy(), rtol=1e-6)
    assert ["only where it is a mean over samples" in one for one in remarks()] == [True] * said


def test_outputs_in_tuples_are_joined_one_by_one() -> None:
    doubled, (sums, first) = nn.PipelineCell(Pair(), 3)(Tensor(ROWS))
    for found, wanted in ((doubled, 2 * ROWS), (sums, ROWS.sum(1)), (first, ROWS[:, 0])):
        np.testing.assert_allclose(found.asnumpy(), wanted, rtol=1e-12)


def test_a_sum_behind_a_factor_is_averaged_and_says_so(remarks) -> None:
    class Doubled(nn.Cell):
        def construct(self, x):
            return ops.mul(2.0, x.sum())

    found = nn.PipelineCell(Doubled(), 3)(Tensor(ROWS))
    np.testing.assert_allclose(found.asnumpy(), 2 * ROWS.sum() / 3, rtol=1e-12)
    assert ["ReduceSum is a sum" in one for one in remarks()] == [True]


def test_more_stages_than_layers_are_refused_with_how_many_there_may_be() -> None:
    context.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel", full_batch=True, device_num=4, pipeline_stages=4
    )
    network = nn.WithLossCell(nn.SequentialCell(nn.Dense(6, 4), nn.ReLU()), nn.MSELoss())
    with pytest.raises(ConfigurationError, match="the network has 2 layers, 0, 1, for 4 stages; take at most 2 stages"):
        nn.PipelineCell(network, 4, stages="auto").set_train()(Tensor(ROWS), Tensor(LABELS))


def test_stage_config_numbers_cells_by_their_names() -> None:
    network = nn.SequentialCell(nn.Dense(2, 2), nn.Dense(2, 2))
    nn.PipelineCell(network, 2, {"0": 0, "1": 1})
    assert [cell.pipeline_stage for cell in network.cells()] == [0, 1]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.PipelineCell(Network(), 0), ConfigurationError, "micro_size 0 must be an integer of at least 1"),
        (
            lambda: nn.PipelineCell(Network(), 5).set_train()(Tensor(ROWS)),
            ConfigurationError,
            "micro_size 5 does not divide the 12 rows of input 0, which weight/MatMul reads first; take a batch_size",
        ),
        (
            lambda: nn.PipelineCell(nn.WithLossCell(Network(), nn.MSELoss()), 2)(Tensor(ROWS), Tensor(LABELS[:6])),
            ConfigurationError,
            "its inputs have 12, 6 rows; give each as many in dim 0",
        ),
        (
            lambda: nn.PipelineCell(Network(turned=True), 2).set_train()(Tensor(ROWS)),
            TraceError,
            "Dropout: the rows of a micro-batch do not lie along dim 0 of its input, of shape \\(4, 6\\)",
        ),
        (
            lambda: nn.PipelineCell(Network(), 2, {"head": 1}),
            ConfigurationError,
            "stage_config has 'head', and the network has no such cell; there are weight, dropout",
        ),
        (
            lambda: nn.PipelineCell(Network(), 2, stages="auto").put_in_stages([1, 1]),
            ConfigurationError,
            r"stages \[1, 1\] are given to a network that was made with stages=\"auto\", which chooses them itself",
        ),
        (
            lambda: nn.PipelineCell(Pair(), 2)((Tensor(ROWS), Tensor(ROWS))),
            ConfigurationError,
            "input 0 is a tuple; give tensors, each with the batch in its dim 0",
        ),
        (
            lambda: nn.PipelineCell(Reversed(), 5).set_train()(Tensor(LABELS), Tensor(ROWS)),
            ConfigurationError,
            "micro_size 5 does not divide the 12 rows of input 0, which Sub of stage 1 reads first",
        ),
    ],
)
def test_what_cannot_be_cut_is_refused(call, error, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_a_layer_that_only_reshapes_needs_no_memory_of_its_own() -> None:
    network = nn.SequentialCell(nn.Flatten(), nn.Dense(6, 4), nn.Dense(4, 2))
    configuration = ParallelConfiguration(device_num=2, pipeline_stages=2)
    with pytest.raises(ConfigurationError, match="where the smallest layer needs 0 bytes"):
        put_by_cost(network, network, [Tensor(np.ones((2, 2, 3), np.float32))], 2, 1.0, configuration)
