"""What a resume refuses, what it replaces, and what it goes back to."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from mpiparallel import context, nn
from mpiparallel.checkpoint.catalogue import catalogue
from mpiparallel.checkpoint.loading import new_arrays
from mpiparallel.checkpoint.saving import save_shards
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CheckpointError, ConfigurationError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.train import CheckpointConfig, ModelCheckpoint
from mpiparallel.train.persistence.resume import _in_own_words
from mpiparallel.train.persistence.state import shape_of_one
from mpiparallel.train.persistence.state import state_of as training_state_of
from mpiparallel.train.persistence.training_record import TrainingRecord
from tests.conformance.trainings.resumed_training import (
    BATCH,
    ONE,
    SHARDS,
    Case,
    data_of,
    leg,
    model_of,
    state_of,
    stopped,
)
from tests.conformance.trainings.saved_training import make_dataset, make_model, train_and_save

SMALL = Case(2, {**ONE, **SHARDS}, scaled=False)


class Wider(nn.Cell):
    def __init__(self, network):
        super().__init__()
        self.network, self.more = network, nn.Dense(4, 4)

    def construct(self, x):
        return self.more(self.network(x))


def other_model(case, seed=3, rate=0.05, optimizer=nn.Adam, wider=False, rows=BATCH):
    """Return a model and a dataset like those that were saved, but for what is said."""
    model = model_of(case, rate, seed, optimizer, Wider if wider else lambda network: network)
    return model, data_of(case, rows)


REFUSED = {
    "seed": ({"seed": 4}, r"the seed of the context: 4 here, 3 there"),
    "schedule": ({"rate": 0.1}, r"the learning rate: 'CosineDecayLR\(.*max_lr=0.1.*' here, '.*max_lr=0.05.*' there"),
    "optimizer": ({"optimizer": nn.Momentum}, r"lacks 'moments\..* more and has 'beta1_power', .* more besides"),
    "parameters": (
        {"wider": True},
        r"lacks 'moment1.more.bias', .* load the network and the optimizer that were saved",
    ),
    "batch": ({"rows": 4}, r"the steps of an epoch: 24 here, 12 there; the rows of a step of all ranks: 4 here, 8"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_would_not_go_on_as_it_was_is_refused_and_nothing_is_changed(what, tmp_path) -> None:
    leg(SMALL, tmp_path, 3)
    given, message = REFUSED[what]

    def on_rank(communicator):
        model, data = other_model(SMALL, **given)
        model.build(data)
        before = state_of(model)
        with pytest.raises(CheckpointError, match=message):
            model.resume(tmp_path, data)
        assert state_of(model) == before
        assert (model.step, model.resumed) == (0, None)
        found = model.resume(tmp_path, data, strict=False)
        return found.differences, found.missing

    for differences, missing in run_world(2, on_rank):
        assert differences or missing


def test_a_tensor_of_another_shape_or_kind_is_refused_even_if_others_may_differ(tmp_path) -> None:
    leg(SMALL, tmp_path, 3)

    def on_rank(communicator):
        _, data = other_model(replace(SMALL, dtype=np.float64))
        with pytest.raises(CheckpointError, match=r"'0\.gamma' is float32 there, float64 here"):
            model_of(replace(SMALL, dtype=np.float64)).resume(tmp_path, data)
        found = model_of(replace(SMALL, dtype=np.float64)).resume(tmp_path, data, strict=False)
        assert found.step == 3

    run_world(2, on_rank)


def damaged(path):
    """Cut a file off in its middle."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def test_a_lost_shard_is_read_from_a_replica_which_is_told(tmp_path, capsys) -> None:
    case = Case(2, ONE, ((1, 1), (1, 1)))
    wanted = leg(case, tmp_path, 3)
    damaged(tmp_path / "rank_0" / "net-1_3.h5")
    resumed = stopped(case, tmp_path)
    for (found, _, state, step), (_, _, expected, _) in zip(resumed, wanted, strict=True):
        assert (found.name, step, list(found.replaced), found.lost) == ("net-1_3", 3, [0], {})
        assert state == expected
    said = capsys.readouterr().out
    assert "Model.resume: resumed from" in said
    assert "replicas stand in for 1 files (rank 0: " in said
    assert "read from rank 1" in said


def test_where_no_replica_is_left_an_older_checkpoint_is_taken_and_the_lost_one_is_saved_anew(tmp_path, capsys) -> None:
    wanted = leg(SMALL, tmp_path, 5)
    # With shards of the optimizer, moments have no replicas.
    damaged(tmp_path / "rank_1" / "net-1_5.h5")
    resumed = leg(SMALL, tmp_path, 5)
    for rank, (found, losses, state, _) in enumerate(resumed):
        assert (found.name, found.step, list(found.lost)) == ("net-1_4", 4, ["net-1_5"])
        assert losses == {5: wanted[rank][1][5]}
        assert state == wanted[rank][2]
    said = capsys.readouterr().out
    assert "net-1_5 cannot be read, going back to an older one: " in said
    assert "Model.resume: resumed from" in said
    again = stopped(SMALL, tmp_path)
    assert [(found.name, found.lost) for found, *_ in again] == [("net-1_5", {})] * 2


def test_what_a_kill_has_left_under_the_prefix_is_deleted_when_its_training_goes_on(tmp_path) -> None:
    leg(SMALL, tmp_path, 3)
    content = (tmp_path / "rank_1" / "net-1_3.h5").read_bytes()
    left = [tmp_path / f"rank_{rank}" / "net-1_4.h5" for rank in (1, 7)]
    others = [tmp_path / "rank_1" / "other-1_4.h5"]
    for path in [*left, *others]:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    leg(SMALL, tmp_path, 4, CheckpointConfig(0))
    assert [path.exists() for path in [*left, *others]] == [False, False, True]


def test_a_damaged_manifest_is_told_and_its_checkpoint_saved_anew(tmp_path) -> None:
    leg(SMALL, tmp_path, 5)
    damaged(tmp_path / "net-1_5.manifest.json")
    assert [list(found.lost) for found, *_ in leg(SMALL, tmp_path, 5)] == [["net-1_5"]] * 2
    assert [(found.name, found.lost) for found, *_ in stopped(SMALL, tmp_path)] == [("net-1_5", {})] * 2


def test_without_a_checkpoint_a_training_begins_and_if_none_can_be_read_it_does_not(tmp_path) -> None:
    assert [found for found, *_ in stopped(SMALL, tmp_path / "none")] == [None, None]
    leg(SMALL, tmp_path, 2)
    for step in (1, 2):
        damaged(tmp_path / "rank_0" / f"net-1_{step}.h5")
    with pytest.raises(CheckpointError, match=r"none of 2 checkpoints can be read: net-1_2: .*net-1_1: "):
        stopped(SMALL, tmp_path)


def test_a_resumed_training_keeps_its_prefix_and_one_that_begins_anew_gets_another(tmp_path) -> None:
    config = CheckpointConfig(4, keep_checkpoint_max=2)
    leg(SMALL, tmp_path, 6, config)
    assert names(tmp_path) == ["net-1_4"]
    leg(SMALL, tmp_path, 14, config)
    assert names(tmp_path) == ["net-1_12", "net-1_8"]

    def anew(communicator):
        model = model_of(SMALL)
        model.train(1, data_of(SMALL), ModelCheckpoint("net", tmp_path, CheckpointConfig(0)))
        assert model.resume(tmp_path, data_of(SMALL), prefix="net").name == "net-1_12"
        return model.resume(tmp_path, data_of(SMALL)).name

    assert run_world(2, anew) == ["net_1-1_12"] * 2
    # It is the newest, so that a third run goes on from it, under its prefix.
    leg(SMALL, tmp_path, 20, config)
    assert names(tmp_path) == ["net-1_12", "net-1_8", "net_1-2_4", "net_1-2_8"]


def names(folder):
    return sorted(entry.name for entry in catalogue(folder))


def test_a_checkpoint_that_says_nothing_of_a_training_is_refused(tmp_path) -> None:
    def on_rank(communicator):
        model = model_of(SMALL)
        staged = model.build(data_of(SMALL))
        arrays, layouts = training_state_of(staged)
        save_shards(tmp_path, "bare", 1, 1, arrays, layouts, communicator, {"step": "1"})
        with pytest.raises(CheckpointError, match=r"bare-1_1.*: it does not say where a training stood"):
            model.resume(tmp_path, data_of(SMALL))

    run_world(2, on_rank)


POSITION = {"step": 4, "epoch": 1, "step_in_epoch": 4, "ranks": 2, "own": [], "appended": [], "facts": {}}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"facts": None}, "it does not say where a training stood; ModelCheckpoint saves one that does"),
        ({"facts": []}, "it does not say where a training stood"),
        ({"own": "w"}, "its lists of tensors are none"),
        ({"own": [3]}, "its lists of tensors are none"),
        ({"appended": {"w": 1}}, "its lists of tensors are none"),
    ],
)
def test_what_a_manifest_says_of_a_training_must_be_a_position_in_one(change, reason) -> None:
    assert TrainingRecord.of_json(POSITION).step == 4
    with pytest.raises(CheckpointError, match=reason):
        TrainingRecord.of_json(POSITION | change)


def test_a_lack_of_memory_is_no_reason_to_go_back_to_an_older_checkpoint(tmp_path, monkeypatch, capsys) -> None:
    def refuse(*_):
        raise MemoryError

    run_world(2, train_and_save, tmp_path, 1, CheckpointConfig(1))
    monkeypatch.setattr(new_arrays, "np", SimpleNamespace(empty=refuse, uint8=np.uint8))

    def on_rank(communicator):
        with pytest.raises(new_arrays.LackOfMemoryError, match=r"there is no room for the [0-9]+ bytes of this rank"):
            make_model().resume(tmp_path, make_dataset())

    run_world(2, on_rank)
    assert "cannot be read" not in capsys.readouterr().out


def test_a_tensor_of_another_shape_is_refused_by_both_shapes(tmp_path) -> None:
    run_world(1, train_and_save, tmp_path, 1, CheckpointConfig(0))

    def on_rank(communicator):
        with pytest.raises(CheckpointError, match=r"'weight' has shape \(4, 6\) there, \(4, 5\) here"):
            make_model(width=5).resume(tmp_path, make_dataset(width=5))

    run_world(1, on_rank)


def test_a_network_that_is_cut_for_other_ranks_than_there_are_is_not_resumed(tmp_path) -> None:
    def on_rank(communicator):
        model = make_model()
        context.set_auto_parallel_context(device_num=4, global_rank=0)
        with pytest.raises(
            ConfigurationError, match="the network is cut for other ranks than there are; set device_num"
        ):
            model.resume(tmp_path, make_dataset())

    run_world(1, on_rank)


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        (Layout((6, 2), DeviceMatrix((3,)), ((0,), ())), (2, 2)),
        (Layout((6, 2), DeviceMatrix((3,)), ((), ())), (2, 2)),
        (Layout((7, 2), DeviceMatrix((3,)), ((0,), ())), None),
        (Layout((8, 2), DeviceMatrix((2, 2)), ((0,), ())), None),
        (Layout((), DeviceMatrix((3,)), ()), None),
    ],
)
def test_what_was_each_ranks_own_lies_rank_after_rank_or_is_not_taken(layout, shape) -> None:
    assert shape_of_one(layout, is_own=True) == shape
    assert shape_of_one(layout, is_own=False) == layout.global_shape


@pytest.mark.parametrize(
    ("cause", "said"), [(None, "rank 1: no such file"), (CheckpointError("no such file"), "no such file")]
)
def test_what_all_ranks_find_wrong_alike_is_said_once(cause: Exception | None, said: str) -> None:
    with pytest.raises(CheckpointError) as raised, _in_own_words():
        raise CheckpointError("rank 1: no such file") from cause
    assert str(raised.value) == said
