"""Random operators outside of ``Model``: new numbers at each call, by the seed, the same on any cut."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.context import GRAPH_MODE, PYNATIVE_MODE
from mpiparallel.errors import CommunicationError, ConfigurationError

X = np.random.default_rng(0).uniform(1.0, 2.0, (8, 12)).astype(np.float32)


class Dropping(nn.Cell):
    def __init__(self, cut=None):
        super().__init__()
        self.weight = ms.Parameter(np.ones(12, np.float32), name="weight")
        self.dropout = nn.Dropout(p=0.25)
        if cut is not None:
            self.dropout.dropout.shard((cut,))

    def construct(self, x):
        return self.dropout(x * self.weight)


def network(cut=None):
    return Dropping(cut).set_train()


def drawing_cell():
    return network()


def drawing_operator():
    dropout = ops.Dropout(0.5)
    return lambda x: dropout(x)[0]


def drawing_function():
    return lambda x: ops.dropout(x, 0.5)


def drawing_value_and_grad():
    both = ms.value_and_grad(network(), 0)
    return lambda x: both(x)[1]


def drawing_grad_operation():
    cell = network()
    return ops.GradOperation(get_by_list=True)(cell, cell.trainable_params())


def drawing_step():
    cell = network()
    return nn.TrainOneStepCell(nn.WithLossCell(cell, nn.MSELoss()), nn.SGD(cell.trainable_params(), 0.1)).set_train()


def drawing_accumulated_steps():
    cell = network()
    optimizer = nn.SGD(cell.trainable_params(), 0.0)
    cell = nn.WithLossCell(cell, nn.MSELoss())
    return nn.TrainOneStepCell(cell, optimizer, accumulation_steps=2).set_train()


DRAWING = (
    drawing_cell,
    drawing_operator,
    drawing_function,
    drawing_value_and_grad,
    drawing_grad_operation,
    drawing_step,
    drawing_accumulated_steps,
)


def draws(function, count=4):
    inputs = (ms.Tensor(X),) * (2 if isinstance(function, nn.TrainOneStepCell) else 1)
    returned = (function(*inputs) for _ in range(count))
    return [(one[0] if isinstance(one, tuple) else one).asnumpy().tobytes() for one in returned]


@pytest.mark.parametrize("mode", [GRAPH_MODE, PYNATIVE_MODE])
@pytest.mark.parametrize("make", DRAWING)
def test_each_call_draws_anew_and_a_seed_begins_the_draws_anew(make, mode) -> None:
    ms.set_context(mode=mode)
    ms.set_seed(5)
    first = draws(make())
    assert len(set(first)) == len(first)
    ms.set_seed(5)
    assert draws(make()) == first
    ms.set_seed(6)
    assert not set(draws(make())) & set(first)


def cut_draws(_communicator, cut):
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    ms.set_seed(5)
    cell = network(cut)
    gradient = ms.value_and_grad(cell, None, cell.trainable_params())
    return [draws(cell), draws(gradient, 2)]


@pytest.mark.parametrize(("ranks", "cut"), [(2, (2, 1)), (2, (1, 2)), (4, (2, 2)), (3, (1, 3)), (4, None)])
def test_the_draws_are_the_same_on_any_cut(ranks, cut) -> None:
    (wanted,) = run_world(1, cut_draws, None)
    assert run_world(ranks, cut_draws, cut) == [wanted] * ranks


def own_draws(_communicator, make, mode):
    ms.set_context(mode=mode)
    ms.set_auto_parallel_context(parallel_mode="data_parallel")
    return draws(make())


@pytest.mark.parametrize("mode", [GRAPH_MODE, PYNATIVE_MODE])
@pytest.mark.parametrize("make", [drawing_cell, drawing_operator, drawing_function])
def test_ranks_with_batches_of_their_own_draw_their_own(make, mode) -> None:
    drawn = [one for rank in run_world(3, own_draws, make, mode) for one in rank]
    assert len(set(drawn)) == len(drawn)


def out_of_step(communicator):
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    cell = network((2, 1))
    cell(ms.Tensor(X))
    if communicator.rank == 1:
        ops.dropout(ms.Tensor(X))
    cell(ms.Tensor(X))


def test_ranks_that_have_drawn_unequally_are_told_rather_than_given_masks_of_two_kinds() -> None:
    with pytest.raises(CommunicationError, match=r"at random draw [12]\) while .*at random draw [12]\)"):
        run_world(2, out_of_step)


def test_a_network_that_draws_nothing_takes_no_draw() -> None:
    cell = network().set_train(False)
    state = ms.get_rng_state().asnumpy().tolist()
    draws(cell)
    nn.Dense(12, 3)(ms.Tensor(X))
    assert ms.get_rng_state().asnumpy().tolist() == state == [0, 0]


def test_a_state_is_gone_back_to() -> None:
    ms.manual_seed(9)
    function = drawing_function()
    draws(function)
    state = ms.get_rng_state()
    wanted = draws(function)
    ms.set_seed(3)
    ms.set_rng_state(state)
    assert draws(function) == wanted
    assert ms.initial_seed() == ms.get_seed() == 9


@pytest.mark.parametrize("state", [3, [1, 2, 3], [1.0, 2.0], [-1, 2]])
def test_what_is_no_state_is_refused(state) -> None:
    with pytest.raises(ConfigurationError, match="give what get_rng_state has returned"):
        ms.set_rng_state(ms.Tensor(state))


@pytest.mark.parametrize("seed", [-1, 1.0, True, "1", 2**63])
def test_what_is_no_seed_is_refused(seed) -> None:
    for function in (ms.set_seed, ms.manual_seed):
        with pytest.raises(ConfigurationError, match=f"{function.__name__}: .* must be an integer of at least 0"):
            function(seed)


def test_a_seed_is_that_of_numpy_too_as_in_mindspore() -> None:
    ms.set_seed(12)
    assert np.random.rand() == np.random.RandomState(12).rand()


@pytest.mark.parametrize("rule", ["normal", "uniform", "xavier_uniform"])
def test_tensors_without_a_name_are_filled_with_other_values_each(rule) -> None:
    ms.set_seed(5)
    first, second = (ms.initializer(rule, (3, 4)).asnumpy() for _ in range(2))
    assert (first != second).any()
    ms.set_seed(5)
    assert (ms.initializer(rule, (3, 4)).asnumpy() == first).all()
