"""A slice of a checkpoint, loaded where the network is cut otherwise, or not yet."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import Tensor, context, load_checkpoint, load_param_into_net, transform_checkpoints
from mpiparallel.checkpoint.formats.registry import FORMATS
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CheckpointError
from mpiparallel.train import CheckpointConfig
from mpiparallel.train.parameter_files.saved_slice import SavedSlice
from tests.conformance.trainings.saved_training import RANKS, make_dataset, make_model, train_and_save


@pytest.fixture
def shard(tmp_path):
    """The file of rank 0, and the whole weight."""
    ended = run_world(RANKS, train_and_save, tmp_path, 2, CheckpointConfig(0))
    slices = [held["weight"] for _, held in ended]
    assert slices[0].size * RANKS == 24
    return ended[0][0], slices


def loaded_alone(communicator, path):
    model = make_model()
    load_param_into_net(model.train_network, load_checkpoint(path))
    return model.train_network.parameters_dict()["weight"].asnumpy().copy()


def loaded_by(communicator, path, cut):
    model = make_model(cut)
    model.build(make_dataset())
    load_param_into_net(model.train_network, load_checkpoint(path))
    weight = model.train_network.parameters_dict()["weight"]
    return weight.box, weight.asnumpy().copy()


def test_the_whole_is_read_where_the_network_is_not_cut(shard) -> None:
    path, slices = shard
    (whole,) = run_world(1, loaded_alone, path)
    assert whole.shape == (4, 6)
    assert sorted(whole.ravel()) == sorted(np.concatenate([one.ravel() for one in slices]))


@pytest.mark.parametrize("cut", [((1, 1), (3, 1)), ((3, 1), (1, 1)), ((1, 3), (1, 3))])
def test_each_rank_takes_its_part_where_the_network_is_cut_otherwise(shard, cut) -> None:
    path, _ = shard
    (whole,) = run_world(1, loaded_alone, path)
    for box, part in run_world(3, loaded_by, path, cut):
        np.testing.assert_array_equal(part, whole[box.within(type(box).whole(whole.shape))])


@pytest.fixture(params=FORMATS)
def converted(request, shard, tmp_path):
    """The files that each rank gets by the strategy of the network itself, in each format."""
    run_world(RANKS, written_strategy, tmp_path / "strategy.ckpt")
    root = shard[0].parents[1]
    transform_checkpoints(
        root, tmp_path / "converted", "net", None, tmp_path / "strategy.ckpt", output_format=request.param
    )
    return [tmp_path / "converted" / f"rank_{rank}" / f"net{rank}.{request.param}" for rank in range(RANKS)]


def written_strategy(communicator, path):
    model = make_model()
    context.set_auto_parallel_context(strategy_ckpt_save_file=str(path))
    model.build(make_dataset())


def loaded_from(communicator, path):
    model = make_model()
    model.build(make_dataset())
    load_param_into_net(model.train_network, load_checkpoint(path))
    return model.train_network.parameters_dict()["weight"].asnumpy().copy()


def test_a_converted_file_of_another_rank_is_refused(shard, converted) -> None:
    def own(communicator):
        return loaded_from(communicator, converted[communicator.rank])

    for found, held in zip(run_world(RANKS, own), shard[1], strict=True):
        np.testing.assert_array_equal(found, held)
    with pytest.raises(CheckpointError, match="the file is of rank 0, which holds another part than rank"):
        run_world(RANKS, loaded_from, converted[0])
    assert load_checkpoint(converted[0]).keys() == load_checkpoint(shard[0]).keys()


def test_values_that_were_overwritten_are_no_slice_any_more(shard) -> None:
    path, _ = shard

    def overwritten(communicator):
        loaded = load_checkpoint(path)
        assert isinstance(loaded["weight"], SavedSlice)
        loaded["weight"].set_data(Tensor(np.zeros(loaded["weight"].shape, np.float32)))
        with pytest.raises(CheckpointError, match="build the model with the strategy"):
            load_param_into_net(make_model().train_network, loaded)

    run_world(1, overwritten)


@pytest.mark.parametrize("converted", ["ckpt"], indirect=True)
def test_values_that_were_overwritten_are_of_no_file_any_more(converted) -> None:
    def overwritten(communicator):
        model = make_model()
        model.build(make_dataset())
        loaded = load_checkpoint(converted[0])
        loaded["weight"].set_data(Tensor(np.full(loaded["weight"].shape, 7.0, np.float32)))
        load_param_into_net(model.train_network, {"weight": loaded["weight"]})
        return model.train_network.parameters_dict()["weight"].asnumpy().copy()

    for found in run_world(RANKS, overwritten):
        assert (found == 7.0).all()
