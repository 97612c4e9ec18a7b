"""A checkpoint of which each rank has its shard in a folder of its own, in any format of shards."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from mpiparallel import (
    context,
    load_checkpoint,
    load_distributed_checkpoint,
    load_param_into_net,
    transform_checkpoints,
)
from mpiparallel.checkpoint.catalogue import catalogue, find, uncommitted
from mpiparallel.checkpoint.files.regular_file import from_root
from mpiparallel.checkpoint.maintenance.pruning import prune
from mpiparallel.checkpoint.maintenance.shard_recovery import recover
from mpiparallel.checkpoint.maintenance.verification import verify
from mpiparallel.checkpoint.shard_places import SHARD_FORMATS
from mpiparallel.checkpoint.transform.checkpoint_files import newest_files
from mpiparallel.communication import get_rank
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CheckpointError, ConfigurationError
from mpiparallel.train import CheckpointConfig, ModelCheckpoint
from mpiparallel.train.persistence.rank_folders import rank_folders
from tests.conformance.trainings.saved_training import (
    RANKS,
    committed,
    held_by,
    make_dataset,
    make_model,
    train_and_save,
)


def own_folder(root):
    return root / f"ckpt_{get_rank()}"


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def train(communicator, root, epochs, config=None):
    return train_and_save(communicator, own_folder(root), epochs, config or CheckpointConfig(0))


def resumed(communicator, root, epochs):
    model = make_model()
    found = model.resume(own_folder(root), make_dataset())
    saver = ModelCheckpoint("dense", own_folder(root), CheckpointConfig(0))
    model.train(epochs, make_dataset(), [saver], dataset_sink_mode=False)
    return found.step, saver.last_checkpoint, held_by(model)


@pytest.mark.parametrize("format", SHARD_FORMATS)
def test_a_training_goes_on_from_folders_of_the_ranks_own_as_if_it_had_never_stopped(tmp_path, format) -> None:
    whole = run_world(RANKS, train, tmp_path / "whole", 4)
    run_world(RANKS, train, tmp_path, 2, CheckpointConfig(0, format=format))
    for rank, (step, path, held) in enumerate(run_world(RANKS, resumed, tmp_path, 4)):
        assert (step, path) == (6, tmp_path / f"ckpt_{rank}" / "dense-4_3.h5")
        for name, value in whole[rank][1].items():
            np.testing.assert_array_equal(held[name], value, err_msg=name)
    assert committed(tmp_path) == ["dense-2_3", "dense-4_3"]


def test_other_ranks_resume_from_the_folders_of_those_that_saved(tmp_path) -> None:
    run_world(RANKS, train, tmp_path, 2)
    assert [found[0] for found in run_world(2, resumed, tmp_path, 3)] == [6, 6]
    assert [found[0] for found in run_world(1, resumed, tmp_path, 4)] == [9]


def train_beside(communicator, root, name, prefix, epochs):
    folder = root / f"{name}_{communicator.rank}"
    model = make_model()
    saver = ModelCheckpoint(prefix, folder, CheckpointConfig(1, keep_checkpoint_max=2))
    model.train(epochs, make_dataset(), [saver], dataset_sink_mode=False)


def resumed_beside(communicator, root, name, prefix):
    found = make_model().resume(root / f"{name}_{communicator.rank}", make_dataset(), prefix)
    return found and (found.name, found.step)


@pytest.mark.parametrize("size", [RANKS, 2, 1])
def test_of_trainings_side_by_side_each_goes_on_from_its_own_folders(tmp_path, size) -> None:
    for name, prefix, epochs in (("one", "a", 2), ("other", "b", 1)):
        run_world(RANKS, train_beside, tmp_path, name, prefix, epochs)
    for name, expected in {"one": ("a-2_3", 6), "other": ("b-1_3", 3), "third": None}.items():
        assert set(run_world(size, resumed_beside, tmp_path, name, None)) == {expected}
        if expected:
            assert find(tmp_path / f"{name}_{RANKS - 1}")[1].name == expected[0]


def test_trainings_of_two_prefixes_in_the_same_folders_leave_each_others_files_alone(tmp_path) -> None:
    for prefix, epochs in (("a", 2), ("b", 1)):
        run_world(RANKS, train_beside, tmp_path, "ckpt", prefix, epochs)
    assert committed(tmp_path) == ["a-2_2", "a-2_3", "b-1_2", "b-1_3"]
    for prefix, expected in {"a": ("a-2_3", 6), "b": ("b-1_3", 3)}.items():
        assert set(run_world(RANKS, resumed_beside, tmp_path, "ckpt", prefix)) == {expected}
    for name in committed(tmp_path):
        assert verify(*find(tmp_path / name)).is_sound


def test_ranks_that_left_find_what_the_others_saved_later(tmp_path) -> None:
    run_world(RANKS, train_beside, tmp_path, "ckpt", "a", 1)
    run_world(2, resumed, tmp_path, 2)
    assert find(tmp_path / f"ckpt_{RANKS - 1}")[1].name == committed(tmp_path)[-1]


@pytest.mark.parametrize("format", SHARD_FORMATS)
def test_each_rank_loads_the_file_in_its_folder(tmp_path, format) -> None:
    saved = run_world(RANKS, train, tmp_path, 1, CheckpointConfig(0, format=format))

    def load(communicator):
        model = make_model()
        model.build(train_dataset=make_dataset())
        file = own_folder(tmp_path) / f"dense-1_3.{format}"
        assert load_param_into_net(model.train_network, load_checkpoint(file)) == ([], [])
        return held_by(model)

    for found, (path, held) in zip(run_world(RANKS, load), saved, strict=True):
        assert path.suffix == f".{format}"
        for name, value in held.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.parametrize("format", SHARD_FORMATS)
def test_a_folder_that_is_lost_is_written_again_from_those_of_replicas(tmp_path, format) -> None:
    paths = [path for path, _ in run_world(RANKS, replicated, tmp_path, format)]
    content = paths[1].read_bytes()
    paths[1].unlink()
    paths[1].parent.rmdir()
    paths[2].write_bytes(paths[2].read_bytes()[:-40] + bytes(40))
    found = verify(*find(tmp_path))
    assert (found.damaged_ranks, found.lost) == ((1, 2), ())
    assert [rebuilt.rank for rebuilt in recover(paths[0].parent).rebuilt] == [1, 2]
    assert paths[1].read_bytes() == content
    assert verify(*find(tmp_path)).is_sound


def replicated(communicator, root, format):
    """Train so that each rank has whole tensors."""
    model = make_model(((1, 1), (1, 1)))
    context.set_auto_parallel_context(enable_parallel_optimizer=False)
    saver = ModelCheckpoint("dense", own_folder(root), CheckpointConfig(0, format=format))
    model.train(1, make_dataset(), [saver], dataset_sink_mode=False)
    return saver.last_checkpoint, None


def test_older_checkpoints_are_deleted_in_all_folders(tmp_path) -> None:
    run_world(RANKS, train, tmp_path, 4, CheckpointConfig(3, keep_checkpoint_max=2))
    assert committed(tmp_path) == ["dense-3_3", "dense-4_3"]
    for rank in range(RANKS):
        assert names_in(tmp_path / f"ckpt_{rank}") == ["dense-3_3.h5", "dense-4_3.h5"]
    prune(tmp_path, keep=1)
    assert [names_in(tmp_path / f"ckpt_{rank}") for rank in range(RANKS)] == [["dense-4_3.h5"]] * RANKS


def test_a_shard_that_no_manifest_names_is_found_in_a_folder_of_a_ranks_own(tmp_path) -> None:
    run_world(RANKS, train, tmp_path, 1)
    left = tmp_path / "ckpt_2" / "dense-9_9.h5"
    left.write_bytes(b"")
    assert uncommitted(tmp_path) == [left]


def test_a_second_training_takes_another_prefix(tmp_path) -> None:
    for _ in range(2):
        run_world(2, train, tmp_path, 1)
    assert committed(tmp_path) == ["dense-1_3", "dense_1-1_3"]


def test_a_training_in_folders_that_a_script_has_emptied_takes_the_names_of_the_one_before(tmp_path, remarks) -> None:
    for epochs in (2, 1):
        for folder in tmp_path.glob("ckpt_*"):
            shutil.rmtree(folder)
        run_world(2, train, tmp_path, epochs, CheckpointConfig(3))
    assert committed(tmp_path) == ["dense-1_3"]
    assert [names_in(tmp_path / f"ckpt_{rank}") for rank in range(2)] == [["dense-1_3.h5"]] * 2
    aside = {path.name for path in tmp_path.glob("*.lost")}
    assert aside == {"dense-1_3.manifest.json.lost", "dense-2_3.manifest.json.lost"}
    assert sum("without a shard" in line for line in remarks()) == 1


def test_a_checkpoint_of_which_one_shard_is_left_keeps_its_name(tmp_path) -> None:
    run_world(2, train, tmp_path, 1)
    shutil.rmtree(tmp_path / "ckpt_0")
    run_world(2, train, tmp_path, 1)
    assert committed(tmp_path) == ["dense-1_3", "dense_1-1_3"]


def test_files_in_folders_of_their_own_are_loaded_and_converted_by_their_manifest(tmp_path) -> None:
    paths = [path for path, _ in run_world(RANKS, train, tmp_path, 1)]
    assert newest_files(tmp_path) == dict(enumerate(paths))
    transform_checkpoints(tmp_path, tmp_path / "whole", "whole", None, None)
    converted = load_checkpoint(tmp_path / "whole" / "rank_0" / "whole0.h5")

    def load(communicator):
        model = make_model()
        model.build(train_dataset=make_dataset())
        load_distributed_checkpoint(model.train_network, [str(path) for path in paths])
        return held_by(model)

    held = run_world(1, load)[0]
    for name in ("weight", "moment1.weight", "bias"):
        np.testing.assert_array_equal(converted[name].asnumpy(), held[name], err_msg=name)
    _, manifest = find(paths[3].parent)
    assert manifest.rank_count == RANKS
    assert [entry.name for entry in catalogue(tmp_path)] == [manifest.name]


@pytest.mark.parametrize(
    ("directory", "root", "folders"),
    [
        (None, "", ("device0", "device1")),
        ("./", "", ("device0", "device1")),
        ("saved", "", ("device0/saved", "device1/saved")),
        ("rank_{}", "", ("device0/rank_0", "device1/rank_1")),
        ("../saved/rank_{}", "saved", ()),
        ("../saved", "saved", ()),
    ],
)
def test_ranks_that_work_in_folders_of_their_own_save_there(tmp_path, monkeypatch, directory, root, folders) -> None:
    monkeypatch.setattr("pathlib.Path.cwd", lambda: tmp_path / f"device{get_rank()}")

    def place(communicator):
        found, own = rank_folders(directory and directory.format(get_rank()), communicator)
        return from_root(found), own

    assert run_world(2, place) == [(tmp_path / root, folders)] * 2


def test_ranks_in_one_folder_that_name_none_save_in_checkpoints() -> None:
    found = run_world(2, lambda communicator: rank_folders(None, communicator))
    assert [(str(root), own) for root, own in found] == [("checkpoints", ())] * 2


def test_folders_that_have_none_in_common_are_refused() -> None:
    def place(communicator):
        with pytest.raises(ConfigurationError, match=r"rank 0 saves in /a, rank 1 in /b, and no folder is above both"):
            rank_folders("/" + "ab"[get_rank()], communicator)

    run_world(2, place)


def test_where_only_some_ranks_share_a_folder_each_makes_its_own_in_it() -> None:
    found = run_world(3, lambda communicator: rank_folders("/x/" + "aab"[get_rank()], communicator))
    assert [own for _, own in found] == [("a/rank_0", "a/rank_1", "b/rank_2")] * 3


@pytest.mark.parametrize("options", [{"integrated_save": True}, {"async_save": True}, {"remove_redundancy": True}])
def test_other_ways_of_saving_go_into_folders_of_their_own_and_other_formats_too(tmp_path, options) -> None:
    config = CheckpointConfig(0, format="ckpt", **options)
    held = [values for _, values in run_world(RANKS, train, tmp_path, 2, config)]
    written = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.ckpt"))
    ranks = [0] if "integrated_save" in options else range(RANKS)
    assert written == [f"ckpt_{rank}/dense-2_3.ckpt" for rank in ranks]
    assert verify(*find(tmp_path)).is_sound

    def resume(communicator):
        model = make_model()
        model.resume(own_folder(tmp_path), make_dataset())
        return held_by(model)

    for found, wanted in zip(run_world(RANKS, resume), held, strict=True):
        for name, value in wanted.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.parametrize("has_replicas", [True, False])
def test_of_a_missing_shard_the_error_names_who_holds_the_same(tmp_path, has_replicas) -> None:
    def save(communicator):
        model = make_model()
        context.set_auto_parallel_context(enable_parallel_optimizer=not has_replicas)
        saver = ModelCheckpoint("dense", own_folder(tmp_path), CheckpointConfig(0))
        model.train(1, make_dataset(), [saver], dataset_sink_mode=False)

    run_world(RANKS, save)
    files = [tmp_path / f"ckpt_{rank}" / "dense-1_3.h5" for rank in range(RANKS)]
    held = [{name: one.asnumpy().tobytes() for name, one in load_checkpoint(file).items()} for file in files]
    files[1].unlink()
    with pytest.raises(CheckpointError) as refused:
        load_checkpoint(files[1].with_suffix(".ckpt"))
    named = [rank for rank in range(RANKS) if f"rank {rank} holds the same slices" in str(refused.value)]
    assert named == [rank for rank in range(RANKS) if rank != 1 and held[rank] == held[1]][:1]
    assert bool(named) == has_replicas
    assert "the shard of rank 1" in str(refused.value)


def test_a_folder_that_is_named_after_another_rank_or_lies_elsewhere_is_not_taken(tmp_path) -> None:
    def crossed(communicator):
        return rank_folders(tmp_path / f"rank_{1 - communicator.rank}", communicator)

    assert run_world(2, crossed) == [(tmp_path, ("rank_0", "rank_1"))] * 2

    def elsewhere(communicator):
        folder = tmp_path / ("saved" if communicator.rank else "other") / f"ckpt_{communicator.rank}"
        return rank_folders(folder, communicator, tmp_path / "saved")

    assert run_world(2, elsewhere) == [(tmp_path / "saved", ("rank_0", "ckpt_1"))] * 2
