"""Evaluation on several ranks: as one rank and as NumPy has it, whatever each rank has to evaluate; never a hang."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import Model, Tensor, context, nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import ConfigurationError, DatasetError, ShapeError

RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(26, 6)).astype(np.float32)
WEIGHT = RANDOM.normal(size=(3, 6)).astype(np.float32)
Y = RANDOM.integers(0, 3, 26).astype(np.int32)
LOGITS = X @ WEIGHT.T
ACCURACY = float((LOGITS.argmax(1) == Y).mean())
LOSS = float(np.mean(np.log(np.exp(LOGITS).sum(1)) - LOGITS[np.arange(26), Y]))


def dataset(rows=slice(None), batch=4):
    return NumpySlicesDataset((X[rows], Y[rows]), ["x", "y"], shuffle=False).batch(batch)


def model(metrics, cut=None, network=None):
    network = network or nn.Dense(6, 3, weight_init=Tensor(WEIGHT), has_bias=False)
    if cut:
        network.matmul.shard(cut)
    return Model(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"), metrics=metrics)


def assert_right(results):
    for found in results:
        assert found["acc"] == pytest.approx(ACCURACY, abs=1e-12)
        assert found["loss"] == pytest.approx(LOSS, rel=1e-5)
        assert found == results[0]


def test_one_rank_gives_what_numpy_does_with_a_remainder_batch() -> None:
    assert 0 < ACCURACY < 1
    assert_right([model({"acc", "loss"}).eval(dataset())])


def test_metrics_may_be_named_by_the_user() -> None:
    found = model({"right": nn.Accuracy(), "second": nn.TopKCategoricalAccuracy(2), "cost": "loss"}).eval(dataset())
    second = (np.argsort(-LOGITS, 1)[:, :2] == Y[:, None]).any(1).mean()
    assert found == pytest.approx({"right": ACCURACY, "second": second, "cost": LOSS}, rel=1e-5)


def on_whole_batches(communicator, cut):
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    return model({"acc", "loss"}, cut).eval(dataset())


@pytest.mark.parametrize("cut", [None, ((2, 1), (2, 1)), ((1, 2), (1, 2)), ((4, 1), (1, 1))])
def test_a_cut_network_gives_what_one_rank_does(cut) -> None:
    assert_right(run_world(4, on_whole_batches, cut))


def on_pieces(communicator):
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=False)
    rows = np.arange(24).reshape(3, 4, 2)[:, communicator.rank].reshape(-1)
    found = model({"acc"}).eval(dataset(rows, batch=2))
    return found["acc"]


def test_ranks_fed_a_piece_of_each_batch_measure_the_whole() -> None:
    wanted = float((LOGITS[:24].argmax(1) == Y[:24]).mean())
    assert run_world(4, on_pieces) == pytest.approx([wanted] * 4, abs=1e-12)


def on_own_batches(communicator, shares, mode="data_parallel", network=None):
    context.set_auto_parallel_context(parallel_mode=mode, parameter_broadcast=True)
    start = sum(shares[: communicator.rank])
    rows = np.arange(start, start + shares[communicator.rank])
    return model({"acc", "loss"}, network=network and network()).eval(dataset(rows))


@pytest.mark.parametrize("shares", [(7, 7, 6, 6), (1, 20, 1, 4), (26,)])
def test_ranks_with_batches_of_their_own_measure_all_of_them_however_many_each_has(shares) -> None:
    assert_right(run_world(len(shares), on_own_batches, shares))


def with_metrics_in_another_order(communicator):
    context.set_auto_parallel_context(parallel_mode="data_parallel")
    names = ["acc", "loss"] if communicator.rank else ["loss", "acc"]
    return model(names).eval(dataset(slice(communicator.rank, None, 2)))


def test_ranks_may_have_their_metrics_in_any_order_as_processes_have_sets() -> None:
    assert_right(run_world(2, with_metrics_in_another_order))


class Together(nn.Cell):
    """A network of which the ranks compute a part together."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(6, 3, weight_init=Tensor(WEIGHT), has_bias=False)
        self.share = ms.Parameter(np.float32(0.25), "share")
        self.all_reduce = ops.AllReduce()

    def construct(self, x):
        return self.dense(x) * self.all_reduce(self.share * 1.0)


def test_a_rank_with_fewer_batches_takes_part_in_the_collectives_of_the_others() -> None:
    assert_right(run_world(4, on_own_batches, (1, 20, 1, 4), "hybrid_parallel", Together))


def failing(communicator, run, *arguments):
    try:
        run(communicator, *arguments)
    except (ConfigurationError, DatasetError) as error:
        return str(error)
    return ""


def test_a_rank_without_a_batch_is_named_on_all_ranks() -> None:
    for said in run_world(3, failing, on_own_batches, (13, 0, 13)):
        assert "rank 0 has 4, rank 1 has 0, rank 2 has 4; use a smaller batch_size" in said


def on_unequal_whole_batches(communicator):
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    model({"acc"}).eval(dataset(slice(0, 26 - 8 * communicator.rank)))


def test_ranks_that_must_go_together_but_have_unequal_datasets_are_named() -> None:
    for said in run_world(2, failing, on_unequal_whole_batches):
        assert "all ranks go through equally many batches, but rank 0 has 7, rank 1 has 5" in said


class Largest(nn.Metric):
    """A metric of a user, without sums."""

    def clear(self):
        self.largest = -np.inf

    def update(self, *inputs):
        self.largest = max(self.largest, float(inputs[0].asnumpy().max()))

    def eval(self):
        return self.largest


def with_own_metric(communicator):
    context.set_auto_parallel_context(parallel_mode="data_parallel")
    return model({"largest": Largest()}).eval(dataset())


def test_a_metric_of_a_user_works_alone_and_is_refused_where_it_cannot_be_added_up() -> None:
    assert model({"largest": Largest()}).eval(dataset())["largest"] == pytest.approx(LOGITS.max(), rel=1e-6)
    for said in run_world(2, failing, with_own_metric):
        assert "metric 'largest' has no totals" in said
        assert "keep the sums that its eval needs in the array self.totals" in said


class Reordered(nn.Cell):
    """An evaluation network that returns (labels, outputs, loss)."""

    def __init__(self, network) -> None:
        super().__init__()
        self.network = network
        self.loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")

    def construct(self, x, y):
        outputs = self.network(x)
        return y, outputs, self.loss(outputs, y)


def test_an_evaluation_network_says_where_its_outputs_are() -> None:
    network = nn.Dense(6, 3, weight_init=Tensor(WEIGHT), has_bias=False)
    chosen = Model(network, metrics={"acc", "loss"}, eval_network=Reordered(network), eval_indexes=[2, 1, 0])
    assert_right([chosen.eval(dataset())])


def test_wrong_metrics_are_refused_before_anything_runs() -> None:
    with pytest.raises(ConfigurationError, match=r"metric 'acuracy' is not known; .* did you mean 'accuracy'"):
        model({"acuracy"})
    with pytest.raises(ConfigurationError, match=r"metrics \['acc'\] need the outputs and labels; give a loss_fn"):
        Model(nn.Dense(6, 3), metrics={"acc"})
    with pytest.raises(ConfigurationError, match="is a float; give a Metric, or its name"):
        model({"acc": 0.5})
    with pytest.raises(ConfigurationError, match="must be three integers"):
        Model(nn.Dense(6, 3), metrics={"acc"}, eval_network=nn.Dense(6, 3), eval_indexes=[0])
    with pytest.raises(DatasetError, match="the dataset has no batch"):
        model({"acc"}).eval(NumpySlicesDataset((X, Y), ["x", "y"]).batch(100, drop_remainder=True))


def test_a_valid_dataset_has_the_evaluation_compiled() -> None:
    batches = NumpySlicesDataset((np.ones((4, 3), np.float32), np.ones((4, 1), np.float32)), ["x", "y"]).batch(2)
    placed = []
    for options in ({}, {"valid_dataset": batches}):
        layer = nn.Dense(3, 1)
        Model(layer, nn.MSELoss()).build(**options)
        placed.append(layer.weight.layout is not None)
    assert placed == [False, True]


def test_cells_are_in_training_again_after_an_evaluation_that_ended_or_failed() -> None:
    network = nn.SequentialCell([nn.Dense(6, 3, weight_init=Tensor(WEIGHT), has_bias=False), nn.Dropout(0.5)])
    network.set_train()
    network[0].set_train(False)
    before = [cell.training for _, cell in network.cells_and_names()]
    assert set(before) == {False, True}
    evaluated = model({"loss"}, network=network)
    assert evaluated.eval(dataset())["loss"] == pytest.approx(LOSS, rel=1e-5)
    assert [cell.training for _, cell in network.cells_and_names()] == before
    assert evaluated.predict(Tensor(X)).shape == (26, 3)
    assert [cell.training for _, cell in network.cells_and_names()] == before
    with pytest.raises(ShapeError):
        evaluated.predict(Tensor(X[:, :3]))
    assert [cell.training for _, cell in network.cells_and_names()] == before


def test_ranks_that_stand_alone_evaluate_what_each_of_them_has() -> None:
    def alone(communicator):
        return model({"acc"}).eval(dataset(slice(0, 26 - 8 * communicator.rank)))["acc"]

    wanted = [float((LOGITS[:count].argmax(1) == Y[:count]).mean()) for count in (26, 18)]
    assert run_world(2, alone) == pytest.approx(wanted, abs=1e-12)


def test_without_metrics_nothing_is_told_and_no_rank_waits() -> None:
    def on_rank(communicator):
        context.set_auto_parallel_context(parallel_mode="data_parallel", parameter_broadcast=True)
        return model({}).eval(dataset(slice(communicator.rank, None, 2)))

    assert run_world(2, on_rank) == [{}, {}]
