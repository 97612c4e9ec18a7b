"""What goes along when a training moves by Model.reshard: data, sums, scales, averages, and the strategy asked for."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import Model, Tensor, context, nn
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import StrategyFileError
from mpiparallel.train import DynamicLossScaleManager
from tests.conformance.trainings.moving_product import (
    DATA_PARALLEL,
    SEMI_AUTO,
    At,
    Product,
    alone,
    compare,
    make_model,
    normed_model,
    rows,
    shard_rows,
    small_rows,
)
from tests.conformance.trainings.moving_training import Losses


@pytest.mark.parametrize("form", ["network", "places", "names", "file", "option"])
def test_a_strategy_may_be_a_network_a_dict_or_a_file_given_or_named_by_the_option(form, tmp_path) -> None:
    cut = ((3, 1), (1, 2))
    file = str(tmp_path / "strategy.json")

    def save():
        context.set_auto_parallel_context(device_num=6, global_rank=0, strategy_ckpt_save_file=file)
        make_model(cut).build(rows())
        context.reset_auto_parallel_context()

    save()
    asked = {
        "network": {"strategy": Product(cut)},
        "places": {"strategy": {"first": cut}},
        "names": {"strategy": {"MatMul_weight": cut}},
        "file": {"strategy": file},
        "option": {"strategy_ckpt_load_file": file},
    }[form]

    def job(communicator):
        model, losses = make_model(((2, 1), (1, 2))), Losses()
        legs = [At(5, lambda: model.reshard(ranks=6, **asked))]
        model.reshard(ranks=4)
        model.train(3, rows(), [losses, *legs], dataset_sink_mode=False)
        assert model.predict_network.weight.layout.cuts == (1, 2)
        assert model.predict_network.weight.layout.devices.shape in ((3, 2), (6,))
        return losses.by_step

    compare(run_world(6, job)[0], alone())


def test_a_file_of_another_number_of_devices_is_refused(tmp_path) -> None:
    file = str(tmp_path / "strategy.json")
    context.set_auto_parallel_context(device_num=6, global_rank=0, strategy_ckpt_save_file=file)
    make_model(((3, 1), (1, 2))).build(rows())
    context.reset_auto_parallel_context()

    def job(communicator):
        model = make_model(((2, 1), (1, 2)))
        model.train(1, rows(), dataset_sink_mode=False)
        for asked in ({"strategy": file}, {"strategy_ckpt_load_file": file}):
            with pytest.raises(StrategyFileError, match=r"json: is of 6 devices, and 4 ranks are to train"):
                model.reshard(**asked)

    run_world(4, job)


def test_sums_over_batches_and_the_scale_of_the_loss_go_along() -> None:
    def train(communicator=None):
        options = {"accumulation_steps": 2, "loss_scale_manager": DynamicLossScaleManager(2.0**10, 2, 2)}
        model, losses = make_model(**options), Losses()
        leg = [At(3, lambda: model.reshard(ranks=2))] if communicator else []
        model.train(4, rows(), [losses, *leg], dataset_sink_mode=False)
        return losses.by_step, float(model.train_network.scale_sense.asnumpy()) if model.active else None

    wanted, scale = train()
    results = run_world(3, train)
    compare(results[0][0], wanted)
    assert results[0][1] == scale != 2.0**10


def test_ranks_with_batches_of_their_own_deal_them_out_anew() -> None:
    def job(communicator):
        context.set_seed(1)
        model, losses = make_model(settings=DATA_PARALLEL), Losses()
        model.predict_network.dropout.set_train = lambda mode=True: None
        model.predict_network.dropout = nn.ReLU()
        legs = (
            []
            if communicator.size == 1
            else [
                At(2, lambda: model.reshard(ranks=3)),
                At(6, lambda: model.reshard(ranks=[3, 1])),
                At(9, lambda: model.reshard(ranks=4)),
            ]
        )
        model.train(3, shard_rows(), [losses, *legs], dataset_sink_mode=False)
        return losses.by_step, {one.name: one.asnumpy() for one in model.train_network.get_parameters()}

    ((wanted, weights),) = run_world(1, job)
    results = run_world(4, job)
    for step, loss in wanted.items():
        np.testing.assert_allclose(np.mean([found[step] for found, _ in results if step in found]), loss, rtol=1e-9)
    for _, found in results:
        for name, array in weights.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-9, err_msg=name)


def test_moving_averages_of_each_rank_stay_with_it_and_those_who_join_take_one_over() -> None:
    def job(communicator):
        model = normed_model()
        model.train(1, small_rows())
        first = model.predict_network.norm.moving_mean.asnumpy().copy()
        model.reshard(ranks=[2, 0])
        model.reshard(ranks=[3, 2, 0])
        second = model.predict_network.norm.moving_mean.asnumpy().copy() if model.active else None
        model.reshard(ranks=[0, 2], **SEMI_AUTO)
        third = model.predict_network.norm.moving_mean.asnumpy().copy() if model.active else None
        return first, second, third

    first, second, third = zip(*run_world(4, job), strict=True)
    assert not np.array_equal(first[0], first[2])
    np.testing.assert_array_equal(second[0], first[0])
    np.testing.assert_array_equal(second[2], first[2])
    np.testing.assert_array_equal(second[3], first[2])
    np.testing.assert_array_equal(third[0], first[2])
    np.testing.assert_array_equal(third[2], first[2])
    assert second[1] is third[1] is None


def test_pieces_of_the_global_batch_follow_in_semi_auto_mode() -> None:
    pieces = {"parallel_mode": "semi_auto_parallel", "full_batch": False}

    def job(communicator):
        model, losses = make_model(settings=pieces), Losses()
        model.predict_network.dropout = nn.ReLU()
        legs = [At(3, lambda: model.reshard(ranks=3)), At(7, lambda: model.reshard(ranks=[3, 0]))]
        model.train(3, shard_rows(), [losses, *legs] if communicator.size > 1 else losses, dataset_sink_mode=False)
        return losses.by_step

    compare(run_world(4, job)[0], run_world(1, job)[0])


def test_ranks_are_relabelled_so_that_bytes_stay_where_they_are() -> None:
    def job(communicator, relabel):
        model = make_model(((1, 1), (1, 4)))
        model.train(1, rows())
        report = model.reshard({"first": ((1, 1), (1, 2))}, ranks=[3, 2, 1, 0], relabel=relabel)
        model.train(3, rows(), losses := Losses())
        return report.bytes_moved, model.training_ranks, losses.by_step

    plain, better = run_world(4, job, False)[0], run_world(4, job, True)[0]
    assert better[0] < plain[0]
    assert better[1] != plain[1] == (3, 2, 1, 0)
    compare(better[2], {step: loss for step, loss in alone().items() if step > 4})


def test_a_network_that_only_predicts_moves_too() -> None:
    def job(communicator):
        context.set_auto_parallel_context(**SEMI_AUTO)
        layer = nn.Dense(6, 4)
        layer.matmul.shard(((1, 1), (4, 1)))
        model, x = Model(layer), Tensor(np.ones((3, 6), np.float32))
        before = model.predict(x).asnumpy()
        model.reshard({"matmul": ((3, 1), (1, 1))}, ranks=3)
        if not model.active:
            return None
        assert layer.weight.layout.replica_count == 3
        np.testing.assert_allclose(model.predict(x).asnumpy(), before, rtol=1e-6)
        return before

    assert [found is None for found in run_world(4, job)] == [False, False, False, True]
