"""Steps over several batches are steps over one batch of all their rows, and ranks exchange gradients once."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import Model, nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import ConfigurationError, DatasetError, ShapeError, StrategyError
from mpiparallel.nn.wrap.gradient_accumulation import GradientAccumulation
from mpiparallel.train import Callback, DynamicLossScaleManager
from mpiparallel.train.persistence.state import state_of
from mpiparallel.train.strategies.strategy_files import strategy_record

RANDOM = np.random.default_rng(0)
BATCHES, ROWS = 3, 8
X, Y = RANDOM.normal(size=(2 * BATCHES * ROWS, 6)), RANDOM.normal(size=(2 * BATCHES * ROWS, 4))
FIRST, SECOND = RANDOM.normal(size=(10, 6)), RANDOM.normal(size=(4, 10))
OPTIMIZERS = {
    "momentum": lambda weights: nn.Momentum(weights, 0.1, 0.9, 0.01),
    "adam": lambda weights: nn.Adam(weights, 1e-2, weight_decay=0.1),
}
PLACES = {
    "alone": ("", 1, False),
    "data parallel": ("data_parallel", 4, False),
    "semi-auto": ("semi_auto_parallel", 4, False),
    "parallel optimizer": ("semi_auto_parallel", 4, True),
    "data parallel with shards": ("data_parallel", 4, True),
}


def set_up(communicator, mode, optimizer_parallel, **settings):
    if communicator.size > 1:
        ms.set_auto_parallel_context(
            parallel_mode=mode,
            gradients_mean=True,
            full_batch=mode == "semi_auto_parallel",
            enable_parallel_optimizer=optimizer_parallel,
            parallel_optimizer_config={"parallel_optimizer_threshold": 0},
        )
    ms.set_auto_parallel_context(**settings)


def make_network(cut):
    first = nn.Dense(6, 10, ms.Tensor(FIRST), dtype=np.float64)
    second = nn.Dense(10, 4, ms.Tensor(SECOND), dtype=np.float64)
    if cut:
        first.matmul.shard(((2, 1), (2, 1)))
        first.bias_add.shard(((2, 2), (2,)))
        second.matmul.shard(((2, 2), (1, 2)))
    return nn.SequentialCell(first, nn.Tanh(), second)


def rows_of(communicator, mode, rows, x=X, y=Y):
    """What this rank is fed: all, or its share of each batch."""
    batches = np.arange(len(x)).reshape(-1, rows)
    if mode == "data_parallel":
        share = rows // communicator.size
        batches = batches[:, communicator.rank * share : (communicator.rank + 1) * share]
    dataset = NumpySlicesDataset((x[batches.ravel()], y[batches.ravel()]), ["x", "y"], shuffle=False)
    return dataset.batch(batches.shape[1], drop_remainder=True)


def make_model(cut, optimizer, **options):
    network = make_network(cut)
    return Model(network, nn.MSELoss(), OPTIMIZERS[optimizer](network.trainable_params()), **options)


def parameters_of(model):
    return {one.name: (one.asnumpy().copy(), one.box) for one in model.train_network.get_parameters()}


class Losses(Callback):
    def __init__(self):
        self.values, self.steps = [], []

    def every_step(self, run_context):
        self.values.append(float(run_context.original_args().net_outputs))
        self.steps.append(run_context.original_args().cur_step_num)


def train(communicator, mode, optimizer_parallel, optimizer, batches, scaled=False):
    set_up(communicator, mode, optimizer_parallel)
    manager = DynamicLossScaleManager(1024.0, 2, 3) if scaled else None
    cut = communicator.size > 1 and mode == "semi_auto_parallel"
    model = make_model(cut, optimizer, accumulation_steps=batches, loss_scale_manager=manager)
    losses = Losses()
    model.train(2, rows_of(communicator, mode, BATCHES * ROWS // batches), losses)
    return losses.values, losses.steps, parameters_of(model)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled loss"])
def test_three_batches_a_step_train_as_one_of_three_times_the_rows(place, optimizer, scaled) -> None:
    ((losses, steps, wanted),) = run_world(1, train, "", False, optimizer, 1)
    mode, ranks, optimizer_parallel = PLACES[place]
    results = run_world(ranks, train, mode, optimizer_parallel, optimizer, BATCHES, scaled)
    np.testing.assert_allclose(np.mean([found for found, *_ in results], axis=0), losses, rtol=1e-12)
    for _, made, found in results:
        assert made == steps == [1, 2, 3, 4]
        for name, (whole, box) in wanted.items():
            array, own = found[name]
            part = whole[own.within(box)] if whole.ndim else whole
            np.testing.assert_allclose(array, part, rtol=1e-12, atol=1e-15, err_msg=f"{name} at {own}")


def exchanges(communicator, mode, optimizer_parallel, batches):
    """Count the tensors in collectives: sums of gradients and others, and whether they wait for the last batch."""
    set_up(communicator, mode, optimizer_parallel)
    model = make_model(mode == "semi_auto_parallel", "adam", accumulation_steps=batches)
    cell = model.train_network.set_train()
    share = ROWS // communicator.size if mode == "data_parallel" else ROWS
    graph = local_graph(cell.sharded_graph(X[:share], Y[:share]), communicator.rank)
    weights = {name: value for name, value in graph.parameters.items() if name.startswith("accu_grads")}
    found = Counter()
    for node in graph.nodes:
        if node.operator.kind == "communication":
            sums = any(value in weights.values() for value in node.inputs)
            found["of sums" if sums else "other", bool(node.notes.guards)] += len(node.inputs)
    return found


@pytest.mark.parametrize("place", list(PLACES)[1:])
def test_gradients_are_exchanged_in_the_last_batch_only(place) -> None:
    mode, ranks, optimizer_parallel = PLACES[place]
    once = run_world(ranks, exchanges, mode, optimizer_parallel, 1)[0]
    several = run_world(ranks, exchanges, mode, optimizer_parallel, BATCHES)[0]
    sums = several["of sums", True]
    assert sums >= 3
    assert several["of sums", False] == several["other", True] == 0
    assert several["other", False] + sums == once["other", False]


def own_loop(communicator):
    set_up(communicator, "data_parallel", False)
    network = make_network(False)
    optimizer = nn.SGD(network.trainable_params(), 0.5)
    step = nn.TrainOneStepCell(nn.WithLossCell(network, nn.MSELoss()), optimizer, accumulation_steps=2)
    weights = [network[0].weight.asnumpy().copy()]
    for columns in rows_of(communicator, "data_parallel", ROWS).iterate():
        step(*columns.values())
        weights.append(network[0].weight.asnumpy().copy())
    return [not np.array_equal(before, after) for before, after in pairwise(weights)]


def test_in_a_loop_of_ones_own_every_second_call_updates() -> None:
    assert run_world(2, own_loop) == [[False, True] * BATCHES] * 2


def saved_and_planned(communicator):
    set_up(communicator, "semi_auto_parallel", True, grad_accumulation_step=2)
    model = make_model(True, "momentum")
    model.train(1, rows_of(communicator, "", ROWS))
    staged = model.shard([X[:ROWS], Y[:ROWS]])
    arrays, _ = state_of(staged)
    return (
        set(arrays),
        set(strategy_record(staged, ms.context.settings.current_configuration()).layouts),
        model.step,
    )


def test_the_context_asks_for_it_too_and_sums_are_no_state() -> None:
    names = {one.name for one in make_model(False, "momentum").train_network.get_parameters()}
    for saved, planned, steps in run_world(4, saved_and_planned):
        assert saved == names
        assert planned <= names
        assert steps == BATCHES


def test_a_step_that_was_broken_off_leaves_nothing_in_the_next() -> None:
    def model():
        ms.set_seed(1)
        network = nn.SequentialCell(nn.Dense(6, 4, ms.Tensor(SECOND[:, :6]), dtype=np.float64))
        return Model(network, nn.MSELoss(), nn.SGD(network.trainable_params(), 0.5), accumulation_steps=2)

    straight, broken = model(), model()
    batches = [[X[start : start + ROWS], Y[start : start + ROWS]] for start in range(0, 4 * ROWS, ROWS)]
    straight.run_step(*batches[2:])
    with pytest.raises(ShapeError, match="do not broadcast"):
        broken.run_step(batches[0], [batches[1][0], batches[1][1][:3]])
    broken.run_step(*batches[2:])
    for name, (array, _) in parameters_of(straight).items():
        np.testing.assert_array_equal(parameters_of(broken)[name][0], array, err_msg=name)


def test_batches_too_few_for_a_step_at_the_end_of_an_epoch_are_left_out() -> None:
    model = make_model(False, "momentum", accumulation_steps=4)
    losses = Losses()
    model.train(2, NumpySlicesDataset((X, Y), ["x", "y"], shuffle=False).batch(ROWS), losses)
    assert losses.steps == [1, 2]


def test_dropout_differs_from_batch_to_batch_of_a_step() -> None:
    seen = []

    class Dropping(nn.Cell):
        def __init__(self):
            super().__init__()
            self.dense = nn.Dense(6, 4, weight_init="ones")
            self.dropout = nn.Dropout(0.5)

        def construct(self, x):
            return ops.ReduceSum()(self.dropout(self.dense(x)))

    network = Dropping()
    model = Model(network, optimizer=nn.SGD(network.trainable_params(), 0.0), accumulation_steps=2)
    step = model.train_network.set_train()
    for number in range(4):
        seen.append(float(step.run(number, [X[:ROWS].astype(np.float32)])))
    assert len(set(seen)) == 4


def other_rows(communicator):
    set_up(communicator, "semi_auto_parallel", False)
    model = make_model(False, "momentum", accumulation_steps=2)
    model.run_step([X[:4], Y[:4]], [X[4:8], Y[4:8]])
    with pytest.raises(StrategyError, match=r"cannot be added to one laid out as .* give all batches one shape"):
        model.run_step([X[:3], Y[:3]], [X[3:6], Y[3:6]])


def test_wrong_use_is_refused_with_the_mend() -> None:
    run_world(4, other_rows)
    for wrong in (0, -1, 1.5, True, "2"):
        with pytest.raises(ConfigurationError, match="must be an integer of at least 1"):
            make_model(False, "momentum", accumulation_steps=wrong)
    with pytest.raises(ConfigurationError, match="grad_accumulation_step 0 must be an integer of at least 1"):
        ms.set_auto_parallel_context(grad_accumulation_step=0)
    model = make_model(False, "momentum", accumulation_steps=7)
    with pytest.raises(DatasetError, match="fewer than the 7 batches of a step; use a smaller batch_size"):
        model.train(1, NumpySlicesDataset((X, Y), ["x", "y"]).batch(ROWS))
    with pytest.raises(ConfigurationError, match="1 batches are given; a step takes 7"):
        model.run_step([X, Y])


sum_op = ops.MultitypeFuncGraph("grad_sum_op")
clear_op = ops.MultitypeFuncGraph("clear_op")


@sum_op.register("Tensor", "Tensor")
def _cumulative_grad(grad_sum, grad):
    return ops.AssignAdd()(grad_sum, grad)


@clear_op.register("Tensor", "Tensor")
def _clear_grad_sum(grad_sum, zero):
    return ops.depend(True, ops.assign(grad_sum, zero))


class TrainForwardBackward(nn.Cell):
    """The three cells in which MindSpore's users write accumulation themselves."""

    def __init__(self, network, optimizer, grad_sum, sens=1.0):
        super().__init__(auto_prefix=False)
        self.network = network
        self.network.set_grad()
        self.network.add_flags(defer_inline=True)
        self.weights = ms.ParameterTuple(network.trainable_params())
        self.optimizer = optimizer
        self.grad_sum = grad_sum
        self.grad = ops.GradOperation(get_by_list=True, sens_param=True)
        self.sens = sens
        self.hyper_map = ops.HyperMap()

    def construct(self, *inputs):
        loss = self.network(*inputs)
        sens = ops.Fill()(ops.DType()(loss), ops.Shape()(loss), self.sens)
        grads = self.grad(self.network, self.weights)(*inputs, sens)
        return ops.depend(loss, self.hyper_map(ops.partial(sum_op), self.grad_sum, grads))


class TrainOptim(nn.Cell):
    def __init__(self, optimizer, grad_sum):
        super().__init__(auto_prefix=False)
        self.optimizer, self.grad_sum = optimizer, grad_sum

    def construct(self):
        return self.optimizer(self.grad_sum)


class TrainClear(nn.Cell):
    def __init__(self, grad_sum, zeros):
        super().__init__(auto_prefix=False)
        self.grad_sum, self.zeros, self.hyper_map = grad_sum, zeros, ops.HyperMap()

    def construct(self):
        return self.hyper_map(ops.partial(clear_op), self.grad_sum, self.zeros)


def written_by_hand(communicator, mode, optimizer_parallel):
    set_up(communicator, mode, optimizer_parallel)
    network = make_network(communicator.size > 1 and mode == "semi_auto_parallel")
    optimizer = OPTIMIZERS["momentum"](network.trainable_params())
    grad_sum = optimizer.parameters.clone(prefix="grad_sum", init="zeros")
    zeros = optimizer.parameters.clone(prefix="zeros", init="zeros")
    share = 1.0 / BATCHES / (communicator.size if mode == "data_parallel" else 1)
    forward = TrainForwardBackward(nn.WithLossCell(network, nn.MSELoss()), optimizer, grad_sum, share).set_train()
    optimize, clear = TrainOptim(optimizer, grad_sum).set_train(), TrainClear(grad_sum, zeros).set_train()
    for _ in range(2):
        for number, columns in enumerate(rows_of(communicator, mode, ROWS).iterate()):
            forward(*(ms.Tensor(column) for column in columns.values()))
            if (number + 1) % BATCHES == 0:
                optimize()
                clear()
    return {one.name: (one.asnumpy().copy(), one.box) for one in network.get_parameters()}


@pytest.mark.parametrize("place", PLACES)
def test_cells_written_by_hand_as_mindspores_users_do_train_the_same(place) -> None:
    ((_, _, wanted),) = run_world(1, train, "", False, "momentum", 1)
    mode, ranks, optimizer_parallel = PLACES[place]
    for found in run_world(ranks, written_by_hand, mode, optimizer_parallel):
        for name, (array, own) in found.items():
            whole, box = wanted[name]
            np.testing.assert_allclose(array, whole[own.within(box)], rtol=1e-12, atol=1e-15, err_msg=name)


def test_parameters_of_the_optimizer_are_called_as_they_are_there() -> None:
    optimizer = nn.Momentum(nn.Dense(2, 3).trainable_params(), 0.1, 0.9)
    names = {parameter.name for parameter in optimizer.get_parameters()}
    assert {"moments.weight", "learning_rate"} <= names
    assert names <= {parameter.name for parameter in GradientAccumulation(2, optimizer).get_parameters()}
