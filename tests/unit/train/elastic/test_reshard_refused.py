"""A reshard that cannot be, or that fails, is refused on every rank, and the training goes on as it was."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from mpiparallel import nn
from mpiparallel.communication import get_group_size, get_rank
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import (
    ConfigurationError,
    DatasetError,
    ReshardError,
    StrategyError,
)
from mpiparallel.graph.parameter import Parameter
from mpiparallel.reshard.movement import Movement
from mpiparallel.train import (
    Callback,
)
from tests.conformance.trainings.moving_product import (
    DATA_PARALLEL,
    At,
    Product,
    alone,
    compare,
    make_model,
    normed_model,
    rows,
    small_rows,
)
from tests.conformance.trainings.moving_training import Losses

REFUSED = [
    ({"strategy": {"first": ((5, 1), (1, 1))}}, StrategyError, "MatMul.* cuts into 5 parts, but there are 4 devices"),
    ({"ranks": 5}, ConfigurationError, "ranks 5 must be 1 to 4"),
    ({"ranks": [0, 9]}, ConfigurationError, r"distinct ranks of the job, which are \[0, 1, 2, 3\]"),
    ({"ranks": 3}, StrategyError, "cuts into 4 parts, but there are 3 devices"),
    ({"strategy": {"third": ((1,),)}}, StrategyError, "names 'third', which is no operator .* \\(first, second"),
    ({"strategy": nn.ReLU()}, StrategyError, "a ReLU, differs from the model's, a Product, in"),
    ({"strategy": 3}, ConfigurationError, "strategy is a int; give a strategy file"),
    ({"ranks": 2, "retire": "later"}, ConfigurationError, "retire 'later' is neither 'wait' nor 'end'"),
    ({"paralel_mode": "data_parallel"}, ConfigurationError, "did you mean 'parallel_mode'"),
    ({"mode": "quick"}, ConfigurationError, "mode 'quick' is not one of"),
    ({"strategy": {3: ((1,),)}}, StrategyError, "strategy has the key 3; give operators by name"),
    ({"device_num": 2}, ConfigurationError, r"device_num cannot be given here; the number of ranks is that of ranks="),
    ({"global_rank": 2}, ConfigurationError, "global_rank cannot be given here"),
    ({"grad_accumulation_step": 2}, ConfigurationError, "step cannot be given here; .* a training keeps its accumulat"),
    ({"stages": [1, 2]}, ConfigurationError, r"stages \[1, 2\] say where the cells .* and the model has none; leave"),
    ({"parallel_mode": "stand_alone"}, ConfigurationError, "each rank trains a network of its own"),
]
# An epoch has four steps, one for each call, and the last is for calls that differ.
EPOCHS = len(REFUSED) // 4 + 1


def test_what_cannot_be_is_refused_on_every_rank_and_the_training_goes_on_as_it_was() -> None:
    def job(communicator):
        model, losses, told = make_model(((2, 1), (1, 2))), Losses(), []

        class Refused(Callback):
            def step_end(self, run_context):
                step = run_context.original_args().cur_step_num
                wrong, error, words = REFUSED[step - 1] if step <= len(REFUSED) else ({}, None, "")
                if error is not None:
                    with pytest.raises(error, match=words):
                        model.reshard(**wrong)
                    told.append(step)

        callbacks = [losses, Refused(), At(EPOCHS * 4, lambda: unlike(model, communicator.rank))]
        model.train(EPOCHS, rows(), callbacks, dataset_sink_mode=False)
        assert len(told) == len(REFUSED)
        return losses.by_step

    def unlike(model, rank):
        with pytest.raises(ReshardError, match=r"ranks \[3\] ask for something else than rank 0"):
            model.reshard({"first": ((1, 1), (1, 4 if rank < 3 else 2))})
        with pytest.raises(ConfigurationError if rank == 3 else ReshardError, match="ranks 7 must be 1 to 4"):
            model.reshard({"first": ((1, 1), (1, 4))}, ranks=7 if rank == 3 else 4)

    model, wanted = make_model(), Losses()
    model.train(EPOCHS, rows(), wanted, dataset_sink_mode=False)
    for found in run_world(4, job):
        compare(found, wanted.by_step)


OTHER_PARAMETERS = [
    ({"weight": ((6, 11), "weight")}, r"parameter 'weight', whose shape is \(6, 11\), not \(6, 12\)"),
    ({"weight": ((6, 12), "table")}, "parameter 'weight', whose name is 'table'"),
    ({"bias": ((12,), "bias")}, "parameter 'bias', which only the given one has"),
    ({"weight": None}, "parameter 'weight', which only the model has"),
]


def other_product(changes):
    network = Product(((1, 1), (1, 4)))
    for place, made_of in changes.items():
        setattr(network, place, made_of and Parameter(np.ones(made_of[0]), made_of[1]))
    return network


@pytest.mark.parametrize(("changes", "words"), OTHER_PARAMETERS)
def test_a_network_with_other_parameters_is_no_strategy_and_nothing_moves(changes, words) -> None:
    def job(communicator):
        model, losses = make_model(((2, 1), (1, 2))), Losses()
        model.reshard(ranks=4)
        alike = Product(((1, 1), (1, 4)))

        def refused():
            with pytest.raises(StrategyError, match=words):
                model.reshard(other_product(changes))
            # Only one rank has another.
            with pytest.raises(StrategyError if get_rank() == 2 else ReshardError, match=words) as error:
                model.reshard(other_product(changes) if get_rank() == 2 else alike)
            assert get_rank() == 2 or "rank 2" in str(error.value)
            assert model.predict_network.weight.layout.devices.shape == (2, 2)
            assert (model.generation, model.training_ranks) == (1, (0, 1, 2, 3))

        moves = At(8, lambda: model.reshard(alike, ranks=[3, 4, 1, 0]))
        model.train(3, rows(), [losses, At(5, refused), moves], dataset_sink_mode=False)
        return losses.by_step

    wanted, results = alone(), run_world(5, job)
    compare(results[0], wanted)
    compare(results[4], {step: loss for step, loss in wanted.items() if step > 8})


def test_a_network_that_other_cells_have_renamed_is_cut_by_one_that_none_has() -> None:
    class Around(nn.Cell):
        def __init__(self, network):
            super().__init__()
            self.network = network

    model = make_model()
    around = Around(model.predict_network)
    assert model.predict_network.weight.name == "network.weight"
    model.reshard(Product(((1, 1), (1, 1))))
    assert around.network.first.strategy == ((1, 1), (1, 1))


@pytest.mark.parametrize("ranks", [[[0]], [0.0, 1.0], [True, 0], ["0"], "01", {0, 1}, 2.0, True, -1, []])
def test_ranks_that_are_no_integers_are_refused(ranks) -> None:
    def job(communicator):
        model = make_model(((2, 1), (1, 1)))
        with pytest.raises(ConfigurationError, match=r"Model.reshard: ranks .* must be "):
            model.reshard(ranks=ranks)
        return model.training_ranks

    assert run_world(2, job) == [(0, 1)] * 2


@pytest.mark.parametrize("ranks", [np.int64(1), np.array([0]), range(1)])
def test_ranks_may_be_integers_of_numpy_and_any_sequence(ranks) -> None:
    def job(communicator):
        model = make_model(((1, 1), (1, 1)))
        model.reshard(ranks=ranks)
        return model.training_ranks

    assert run_world(2, job) == [(0,)] * 2


def test_a_refusal_out_of_a_training_is_raised_on_spares_too() -> None:
    def job(communicator):
        model = make_model()
        model.train(1, rows())
        model.reshard(ranks=2)
        with pytest.raises(ReshardError if communicator.rank == 2 else ConfigurationError, match="ranks 4 must be"):
            model.reshard(ranks=4)
        model.reshard(ranks=3)
        model.train(3, rows(), losses := Losses())
        return losses.by_step

    wanted = {step: loss for step, loss in alone().items() if step > 4}
    for found in run_world(3, job):
        compare(found, wanted)


def test_half_a_step_is_not_moved() -> None:
    def job(communicator):
        model = make_model(accumulation_steps=2)
        batch = list(next(rows().iterate()).values())
        model.train_network(*batch)
        with pytest.raises(ReshardError, match="1 of the 2 batches of a step have been accumulated"):
            model.reshard(ranks=1)
        model.train_network(*batch)
        model.reshard(ranks=1)
        return model.active

    assert run_world(2, job) == [True, False]


def piece(samples, batch):
    data = np.ones((samples, 6)), np.ones((samples, 12))
    shards = {"num_shards": get_group_size(), "shard_id": get_rank()}
    return NumpySlicesDataset(data, ["x", "y"], **shards).batch(batch, drop_remainder=True)


def test_data_that_cannot_be_dealt_out_anew_are_refused_with_the_mend() -> None:
    def job(communicator):
        model = make_model(settings=DATA_PARALLEL)
        for dataset, words, ranks in (
            (rows(), "each rank is fed data of its own.*num_shards=get_group_size", 2),
            (piece(48, 2), "batch of all ranks has 8 rows, which 3 ranks cannot share", 3),
            (piece(46, 3), "an epoch has 4 steps on 4 ranks, but would have 3 on 2", 2),
        ):
            told = []

            def call(words=words, ranks=ranks, told=told):
                with pytest.raises(DatasetError, match=words):
                    model.reshard(ranks=ranks)
                told.append(words)

            model.step = 0
            model.train(1, dataset, At(1, call), dataset_sink_mode=False)
            assert told or not model.active
        return True

    assert all(run_world(4, job))


def test_weights_of_which_each_rank_has_its_own_do_not_go_to_other_ranks() -> None:
    def job(communicator):
        model = normed_model(alone=True)
        model.train(1, small_rows())
        with pytest.raises(ReshardError, match="'weight' is layerwise_parallel, so that each rank has one of its own"):
            model.reshard(ranks=2)
        model.reshard(enable_parallel_optimizer=True)
        model.train(2, small_rows())
        return model.step

    assert run_world(3, job) == [8, 8, 8]


@pytest.mark.parametrize("mode", ["safe", "bounded"])
def test_a_move_that_fails_leaves_the_training_as_it_was(mode, monkeypatch) -> None:
    calls: dict[int, int] = {}
    forward = Movement.forward

    def forward_but_once(movement):
        here = threading.get_ident()
        calls[here] = calls.get(here, 0) + 1
        if calls[here] == 2:
            raise ReshardError("the memory is gone")
        return forward(movement)

    monkeypatch.setattr(Movement, "forward", forward_but_once)

    def job(communicator):
        model, losses = make_model(((2, 1), (1, 2))), Losses()
        model.reshard(ranks=4)

        def fail():
            with pytest.raises(ReshardError, match="the memory is gone"):
                model.reshard({"first": ((1, 1), (1, 4))}, ranks=[3, 4, 1, 0], mode=mode)
            assert model.predict_network.weight.layout.devices.shape == (2, 2)

        legs = [At(5, fail), At(8, lambda: model.reshard({"first": ((1, 1), (1, 4))}, ranks=[3, 4, 1, 0], mode=mode))]
        model.train(3, rows(), [losses, *legs], dataset_sink_mode=False)
        return losses.by_step

    wanted, results = alone(), run_world(5, job)
    compare(results[0], wanted)
    compare(results[4], {step: loss for step, loss in wanted.items() if step > 8})


def test_a_move_that_fails_there_and_back_says_both_and_names_the_mend(monkeypatch) -> None:
    def fail(words):
        def failing(movement):
            raise ReshardError(words)

        return failing

    monkeypatch.setattr(Movement, "forward", fail("the memory is gone"))
    monkeypatch.setattr(Movement, "back", fail("and the way back"))

    def job(communicator):
        model = make_model(((2, 1), (1, 1)))
        model.train(1, rows())
        with pytest.raises(ReshardError) as raised:
            model.reshard({"first": ((1, 1), (1, 2))}, mode="bounded")
        return str(raised.value)

    said = (
        "the memory is gone\nModel.reshard: nor could what had moved be moved back (and the way back); load the last "
        "checkpoint"
    )
    assert run_world(2, job) == [said] * 2


def test_a_rank_whose_model_is_another_cannot_join_and_the_others_train_on() -> None:
    def job(communicator):
        model, losses = make_model(), Losses()
        model.reshard(ranks=2)
        if communicator.rank == 2:
            model.predict_network.weight = Parameter(np.ones((6, 11)), "weight")

        def call():
            with pytest.raises(
                ReshardError, match=r"rank 2: parameter 'weight' is .*\(6, 12\).*here it is .*\(6, 11\)"
            ):
                model.reshard(ranks=3)

        model.train(3, rows(), [losses, At(5, call)], dataset_sink_mode=False)
        return losses.by_step

    wanted = alone()
    results = run_world(3, job)
    compare(results[0], wanted)
    assert results[2] == {}


def test_names_that_cannot_be_looked_up_yet_are_refused() -> None:
    model = make_model()
    with pytest.raises(StrategyError, match=r"names 'MatMul_weight', .* or after Model\.build as strategy files do"):
        model.reshard({"MatMul_weight": ((1, 1), (1, 1))})
    model.build(rows())
    model.reshard({"MatMul_weight": ((1, 1), (1, 1))})


@pytest.mark.parametrize("name", ["third", "ApplyMomentum_weight", "gradient/network/Pow/Log"])
def test_no_update_and_no_part_of_a_gradient_can_be_named_as_an_operator_of_the_network(name) -> None:
    model = make_model()
    model.build(rows())
    with pytest.raises(StrategyError, match=rf"'{name}', .* do \(MatMul_weight, Mul_scale, \.\.\."):
        model.reshard({name: ((1, 1), (1, 1))})
    model.reshard({"network/Sub": ((1, 1), (1, 1))})
