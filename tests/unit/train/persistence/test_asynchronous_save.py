"""Checkpoints that a thread writes while the ranks train on, and saves that fail."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from mpiparallel import load_checkpoint
from mpiparallel.checkpoint import saving
from mpiparallel.checkpoint.catalogue import catalogue
from mpiparallel.communication import get_rank
from mpiparallel.communication.threads import alone, run_world
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.train import CheckpointConfig, ModelCheckpoint
from mpiparallel.train.persistence import asynchronous_save
from tests.conformance import patience
from tests.conformance.trainings.saved_training import (
    At,
    committed,
    held_by,
    make_dataset,
    make_model,
    shards,
    train_and_save,
)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_save_that_fails_on_one_rank_ends_the_training_on_all_or_is_said(asynchronous, tmp_path, capsys) -> None:
    # A file stands where rank 1 would make its folder.
    (tmp_path / "rank_1").write_text("in the way")

    def on_rank(communicator):
        with pytest.raises(CheckpointError, match=rf"rank 1: .*{tmp_path.name}/rank_1"):
            train_and_save(communicator, tmp_path, 1, CheckpointConfig(1, async_save=asynchronous))

    run_world(2, on_rank)
    assert committed(tmp_path) == []
    assert shards(tmp_path, 0) == []
    config = CheckpointConfig(2, on_error="warn", async_save=asynchronous)
    go_ons = run_world(2, train_and_save, tmp_path, 1, config, At(2, lambda: None))
    assert [path for path, _ in go_ons] == [None, None]
    said = capsys.readouterr().out.splitlines()
    assert [line.partition("; training goes on: ")[0] for line in said] == [
        "ModelCheckpoint: no checkpoint of step 2",
        "ModelCheckpoint: no checkpoint of step 3",
    ]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("checkpoint")]


class HeldBack:
    """Lets the threads that write wait for a word."""

    def __init__(self, monkeypatch):
        self.word, self.begun = threading.Event(), threading.Event()
        write = saving.ShardSave.write

        def waiting(save, arrays):
            if threading.current_thread().name.startswith("checkpoint"):
                self.begun.set()
                patience.wait_until(self.word.is_set)
            write(save, arrays)

        monkeypatch.setattr(saving.ShardSave, "write", waiting)


def test_steps_go_on_while_a_thread_writes_what_they_began_with(tmp_path, monkeypatch) -> None:
    held_back, seen = HeldBack(monkeypatch), {}

    def look(communicator, model):
        # Two steps have been made behind the one that is saved, and none of it is there.
        patience.wait_until(held_back.begun.is_set)
        seen[communicator.rank] = committed(tmp_path), held_by(model)
        if len(seen) == 2:
            held_back.word.set()

    def on_rank(communicator):
        model = make_model()
        saver = ModelCheckpoint("dense", str(tmp_path), CheckpointConfig(3, async_save=True))
        first = {}
        callbacks = [saver, At(3, lambda: first.update(held_by(model))), At(5, lambda: look(communicator, model))]
        model.train(2, make_dataset(), callbacks, dataset_sink_mode=False)
        return first, {name: one.asnumpy() for name, one in load_checkpoint(shard_of(communicator.rank)).items()}

    def shard_of(rank):
        return tmp_path / f"rank_{rank}" / "dense-1_3.h5"

    results = run_world(2, on_rank)
    assert committed(tmp_path) == ["dense-1_3", "dense-2_3"]
    for rank, (wanted, saved) in enumerate(results):
        names, later = seen[rank]
        assert names == []
        for name, value in wanted.items():
            np.testing.assert_array_equal(saved[name], value, err_msg=name)
        assert not np.array_equal(saved["weight"], later["weight"])
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("checkpoint")]


def test_what_all_ranks_have_written_is_committed_at_the_end_of_a_later_step(tmp_path) -> None:
    seen = {}

    def written():
        for thread in threading.enumerate():
            if thread.name.startswith("checkpoint"):
                thread.join()

    def look(communicator):
        seen[communicator.rank] = committed(tmp_path)

    def on_rank(communicator):
        callbacks = [At(5, written), At(7, lambda: look(communicator))]
        train_and_save(communicator, tmp_path, 3, CheckpointConfig(4, async_save=True), *callbacks)

    run_world(2, on_rank)
    assert seen == {0: ["dense-2_1"], 1: ["dense-2_1"]}
    assert committed(tmp_path) == ["dense-2_1", "dense-3_2", "dense-3_3"]


def test_what_is_being_written_when_an_error_ends_the_training_leaves_nothing(tmp_path, monkeypatch) -> None:
    held_back = HeldBack(monkeypatch)

    def fail():
        held_back.word.set()
        raise ZeroDivisionError

    def on_rank(communicator):
        with pytest.raises(ZeroDivisionError):
            train_and_save(communicator, tmp_path, 1, CheckpointConfig(1, async_save=True), At(1, fail))

    run_world(2, on_rank)
    assert committed(tmp_path) == []
    assert shards(tmp_path, 0) == shards(tmp_path, 1) == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("checkpoint")]


def test_a_pending_checkpoint_is_committed_by_the_ranks_that_wrote_it_before_they_change(tmp_path, monkeypatch) -> None:
    held_back = HeldBack(monkeypatch)

    def on_rank(communicator):
        model = make_model(((1, 1), (1, 1)))
        saver = ModelCheckpoint("dense", str(tmp_path), CheckpointConfig(2, async_save=True))

        def move():
            held_back.word.set()
            model.reshard(ranks=[2, 0])

        model.train(2, make_dataset(), [saver, At(2, move)], dataset_sink_mode=False)
        return model.active

    assert run_world(3, on_rank) == [True, False, True]
    counts = {entry.name: entry.manifest.rank_count for entry in catalogue(tmp_path)}
    assert counts == {"dense-1_2": 3, "dense-2_1": 2, "dense-2_3": 2}


def test_a_rank_without_room_for_its_copy_ends_the_save_on_all_ranks(tmp_path, monkeypatch) -> None:
    def room(shape, dtype):
        if get_rank() == 1:
            raise MemoryError
        return np.empty(shape, dtype)

    monkeypatch.setattr(asynchronous_save, "np", SimpleNamespace(empty=room, copyto=np.copyto))

    def on_rank(communicator):
        with pytest.raises(CheckpointError, match=r"^rank 1: MemoryError"):
            train_and_save(communicator, tmp_path, 1, CheckpointConfig(1, async_save=True))

    run_world(2, on_rank)
    assert committed(tmp_path) == []
    assert [shards(tmp_path, rank) for rank in range(2)] == [[], []]


def test_nothing_is_committed_that_was_not_begun() -> None:
    save = asynchronous_save.AsynchronousSave()
    with pytest.raises(CheckpointError, match="no save was started, so that there is none to commit"):
        save.commit(alone())


def one_save(folder, step, **arrays):
    """Return what saves these arrays of one rank, whole."""
    layouts = {name: Layout.replicated(array.shape, DeviceMatrix((1,))) for name, array in arrays.items()}
    return saving.ShardSave(folder, "net", 1, step, layouts, alone())


def test_each_save_has_what_was_held_when_it_began_whatever_shapes_come_after(tmp_path) -> None:
    save = asynchronous_save.AsynchronousSave()
    assert not save.is_writing
    states = [
        {"w": np.arange(6.0), "b": np.ones(2)},
        {"w": np.arange(6.0) + 3, "more": np.zeros(3, np.int32)},
        {"w": np.arange(6.0).reshape(2, 3), "b": np.full(2, 7.0)},
        {"w": np.arange(6, dtype=np.float32).reshape(2, 3)},
    ]
    for step, state in enumerate(states):
        wanted = {name: array.copy() for name, array in state.items()}
        save.start(one_save(tmp_path, step, **state), state)
        for array in state.values():
            array += 1
        assert save.commit(alone()) == tmp_path / f"net-1_{step}.manifest.json"
        assert not save.is_writing
        loaded = load_checkpoint(tmp_path / "rank_0" / f"net-1_{step}.h5")
        assert loaded.keys() == wanted.keys()
        for name, value in wanted.items():
            found = loaded[name].asnumpy()
            assert found.dtype == value.dtype
            np.testing.assert_array_equal(found, value)


@pytest.mark.parametrize("fails", [False, True])
def test_a_save_that_is_abandoned_leaves_nothing_and_another_can_begin(fails, tmp_path) -> None:
    save, state = asynchronous_save.AsynchronousSave(), {"w": np.arange(6.0)}
    if fails:
        # A file stands where the folder of the rank would be.
        (tmp_path / "rank_0").write_text("in the way")
    save.start(one_save(tmp_path, 1, **state), state)
    save.abandon()
    assert not list(tmp_path.rglob("net*"))
    with pytest.raises(CheckpointError, match="no save was started"):
        save.commit(alone())
    save.abandon()
    if not fails:
        save.start(one_save(tmp_path, 1, **state), state)
        assert save.commit(alone()).exists()
