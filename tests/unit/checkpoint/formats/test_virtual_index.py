"""The index of virtual datasets: what h5py shows is the whole that NumPy cut."""

from __future__ import annotations

import shutil

import h5py
import numpy as np
import pytest

from mpiparallel.checkpoint.formats.registry import open_file
from mpiparallel.checkpoint.formats.virtual_index import write_virtual_index
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.saving import save_shards
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

SQUARE = DeviceMatrix((2, 2))
LAYOUTS = {
    "large": Layout((130, 90), SQUARE, ((0,), (1,))),
    "large rows": Layout((9001, 3), SQUARE, ((1,), ()), optimizer_axes=(0,)),
    "small": Layout((5, 7), SQUARE, ((1,), (0,))),
    "small 3-D": Layout((3, 4, 5), SQUARE, ((), (0,), ())),
    "bias": Layout((7,), SQUARE, ((1,),)),
    "replicated": Layout((4, 4), SQUARE, ((), ())),
    "layer/0/50%b%": Layout((6,), SQUARE, ((0,),)),
    "empty": Layout((0, 4), SQUARE, ((), (1,))),
    "step": Layout((), SQUARE, ()),
}
DTYPES = {"large rows": "f4", "small": "f4", "replicated": "i2", "step": "i8", "bias": "?"}
WHOLE = {
    name: np.random.default_rng(seed).integers(0, 100, layout.global_shape).astype(DTYPES.get(name, "f8"))
    for seed, (name, layout) in enumerate(LAYOUTS.items())
}
KEYS = {"layer/0/50%b%": "layer%2F0%2F50%25b%25"}


def cut(rank):
    parts = {}
    for name, layout in LAYOUTS.items():
        box = layout.box(rank)
        parts[name] = np.array(WHOLE[name][tuple(slice(*ends) for ends in zip(box.start, box.stop, strict=True))])
    return parts


@pytest.fixture(params=[False, True], ids=["all ranks write all", "each slice once"])
def folder(request, tmp_path):
    """Return a folder with a checkpoint of four ranks."""
    folder = tmp_path / "saved"

    def save(world):
        save_shards(folder, "net", 1, 77, cut(world.rank), LAYOUTS, world, remove_redundancy=request.param)

    run_world(4, save)
    return folder


def manifest_of(folder):
    return Manifest.load(folder / "net-1_77.manifest.json")


def assert_whole(path):
    with h5py.File(path) as file:
        assert sorted(file) == sorted(KEYS.get(name, name) for name in WHOLE)
        for name, whole in WHOLE.items():
            dataset = file[KEYS.get(name, name)]
            assert (dataset.shape, dataset.dtype) == (whole.shape, whole.dtype)
            np.testing.assert_array_equal(dataset[()], whole)


def test_each_tensor_is_one_dataset(folder):
    path = write_virtual_index(folder, manifest_of(folder))
    assert path == folder / "net-1_77.virtual.h5"
    assert_whole(path)
    with h5py.File(path) as file:
        assert dict(file.attrs) == {"checkpoint": "net-1_77", "epoch": 1, "step": 77}
        assert file["large"].is_virtual


def test_the_index_holds_no_copy_of_the_data(folder):
    path = write_virtual_index(folder, manifest_of(folder))
    assert path.stat().st_size < sum(whole.nbytes for whole in WHOLE.values()) / 4


def test_index_and_shards_can_be_moved_together_and_opened_from_anywhere(folder, tmp_path, monkeypatch):
    path = write_virtual_index(folder, manifest_of(folder), tmp_path / "whole.h5")
    (tmp_path / "elsewhere").mkdir()
    for moved in (path, folder):
        shutil.move(moved, tmp_path / "elsewhere")
    monkeypatch.chdir("/")
    assert_whole(tmp_path / "elsewhere" / "whole.h5")


def save_rows(folder, axis):
    """Save one tensor of floats, cut along ``axis`` of a 2 x 2 device matrix, and return the manifest."""
    layout = Layout((4, 3), SQUARE, ((axis,), ()))

    def save(world):
        box = layout.box(world.rank)
        rows = np.arange(12.0).reshape(4, 3)[box.start[0] : box.stop[0]]
        save_shards(folder, "net", 1, 77, {"w": rows}, {"w": layout}, world)

    run_world(4, save)
    return manifest_of(folder)


def test_a_replica_stands_in_for_a_shard_that_is_lost(tmp_path):
    manifest = save_rows(tmp_path, 0)
    (tmp_path / manifest.shards[0].file).unlink()
    (tmp_path / manifest.shards[3].file).write_bytes(b"damaged")
    with h5py.File(write_virtual_index(tmp_path, manifest)) as file:
        np.testing.assert_array_equal(file["w"][()], np.arange(12.0).reshape(4, 3))


def test_a_slice_that_no_shard_has_is_told_with_the_reason_of_each(tmp_path):
    manifest = save_rows(tmp_path, 0)
    (tmp_path / manifest.shards[2].file).unlink()
    (tmp_path / manifest.shards[3].file).write_bytes(b"damaged")
    with pytest.raises(CheckpointError, match=r'tensor "w".*rank_2.*rank_3.*mpiparallel ckpt recover'):
        write_virtual_index(tmp_path, manifest)
    assert not (tmp_path / "net-1_77.virtual.h5").exists()


def test_shards_that_vanish_later_show_as_nan(tmp_path):
    manifest = save_rows(tmp_path, 0)
    path = write_virtual_index(tmp_path, manifest)
    for rank in (2, 3):
        (tmp_path / manifest.shards[rank].file).unlink()
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["w"][:2], np.arange(6.0).reshape(2, 3))
        assert np.isnan(file["w"][2:]).all()


def test_it_is_never_read_here(folder):
    with pytest.raises(CheckpointError, match=r"virtual\.h5"):
        open_file(write_virtual_index(folder, manifest_of(folder)))


def test_a_folder_that_is_not_there_is_told(folder, tmp_path):
    with pytest.raises(CheckpointError, match="cannot be written"):
        write_virtual_index(folder, manifest_of(folder), tmp_path / "none" / "whole.h5")


def test_a_slice_that_one_shard_had_alone_is_told_with_why_each_rank_lacks_it(tmp_path):
    layouts = {"v": Layout((4, 3), SQUARE, ((0,), ())), "w": Layout((4, 3), SQUARE, ((0,), ()))}

    def save(world):
        rows = np.arange(12.0).reshape(4, 3)[2 * (world.rank // 2) :][:2]
        save_shards(tmp_path, "net", 1, 77, {"v": rows, "w": rows}, layouts, world, remove_redundancy=True)

    run_world(4, save)
    manifest = manifest_of(tmp_path)
    lost = next(rank for rank in (2, 3) if "w" in manifest.shards[rank].arrays)
    (tmp_path / manifest.shards[lost].file).unlink()
    name = min(manifest.shards[lost].arrays)
    with pytest.raises(CheckpointError) as caught:
        write_virtual_index(tmp_path, manifest)
    path = tmp_path / f"rank_{lost}" / "net-1_77.h5"
    why = [
        f"{path}: cannot be read (No such file or directory); restore the file, or run mpiparallel ckpt recover"
        if rank == lost
        else f"the shard of rank {rank} has no such array"
        for rank in (2, 3)
    ]
    assert str(caught.value) == (
        f'tensor "{name}", {layouts[name].box(2)}: no shard has it ({"; ".join(why)}); run mpiparallel ckpt recover'
    )


@pytest.mark.parametrize("dtype", ["f2", "f4", "c8", "i4", "?"])
def test_shards_that_vanish_show_as_nan_where_there_is_one_and_as_0_else(dtype, tmp_path):
    layout = Layout((4, 9000), DeviceMatrix((2,)), ((0,), ()))

    def save(world):
        save_shards(tmp_path, "net", 1, 77, {"w": np.ones((2, 9000), dtype)}, {"w": layout}, world)

    run_world(2, save)
    path = write_virtual_index(tmp_path, manifest_of(tmp_path))
    (tmp_path / "rank_1" / "net-1_77.h5").unlink()
    with h5py.File(path) as file:
        found = file["w"][:, :5]
    assert found.dtype == np.dtype(dtype)
    assert (found[:2] == 1).all()
    assert np.isnan(found[2:]).all() if np.dtype(dtype).kind in "fc" else not found[2:].any()
