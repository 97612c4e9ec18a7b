"""Programs written for MindSpore name .ckpt files; what training has written beside them is found."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import load_checkpoint, nn, rank_list_for_transform, save_checkpoint, transform_checkpoint_by_rank
from mpiparallel.checkpoint.formats.registry import FORMATS, existing_file
from mpiparallel.errors import CheckpointError
from mpiparallel.train.parameter_files.distributed_checkpoint import load_distributed_checkpoint


@pytest.mark.parametrize("format", FORMATS)
def test_the_file_of_another_format_is_read_and_that_is_said_once(tmp_path, format, remarks) -> None:
    save_checkpoint({"w": np.arange(3.0)}, tmp_path / f"net.{format}")
    other = "ckpt" if format != "ckpt" else "h5"
    for _ in range(2):
        np.testing.assert_array_equal(load_checkpoint(tmp_path / f"net.{other}")["w"].asnumpy(), np.arange(3.0))
    line = f"missing .{other} files are replaced by .{format} files of the same names"
    assert remarks() == [line]


def test_what_is_there_is_read_whatever_lies_beside_it(tmp_path, remarks) -> None:
    save_checkpoint({"w": np.zeros(3)}, tmp_path / "net.h5")
    save_checkpoint({"w": np.ones(3)}, tmp_path / "net.ckpt")
    assert load_checkpoint(tmp_path / "net.ckpt")["w"].asnumpy().tolist() == [1.0] * 3
    assert remarks() == []


def test_for_a_name_that_is_not_there_those_like_it_are_told(tmp_path) -> None:
    for name in ("CKP-3_32.h5", "CKP-4_32.h5", "other.npz"):
        save_checkpoint({"w": np.ones(3)}, tmp_path / name)
    with pytest.raises(CheckpointError, match=r"CKP-4_30\.ckpt: is not there; .* such as CKP-4_32\.h5, CKP-3_32\.h5"):
        load_checkpoint(tmp_path / "CKP-4_30.ckpt")


def test_a_file_of_no_format_is_missing_by_its_own_name(tmp_path) -> None:
    assert existing_file(tmp_path / "net.txt") == tmp_path / "net.txt"
    with pytest.raises(CheckpointError, match=r"net\.ckpt"):
        load_checkpoint(tmp_path / "net.ckpt")


def test_the_functions_that_take_files_of_ranks_find_them_too(tmp_path) -> None:
    network = nn.Dense(3, 2)
    save_checkpoint(network, tmp_path / "net.h5")
    named = {rank: tmp_path / "net.ckpt" for rank in rank_list_for_transform(0)}
    transform_checkpoint_by_rank(0, named, tmp_path / "made.ckpt")
    other = nn.Dense(3, 2, weight_init="ones")
    load_distributed_checkpoint(other, [str(tmp_path / "net.ckpt")])
    for found in (load_checkpoint(tmp_path / "made.ckpt")["weight"], other.weight):
        np.testing.assert_array_equal(found.asnumpy(), network.weight.asnumpy())


@pytest.mark.parametrize("thing", ["a link to nothing", "a folder", "nothing"])
def test_what_is_named_or_beside_must_be_a_file_to_be_read_in_place_of_another(tmp_path, thing, remarks) -> None:
    wanted, beside = tmp_path / "net.ckpt", tmp_path / "net.h5"
    if thing == "a link to nothing":
        wanted.symlink_to("nothing")
        beside.touch()
    elif thing == "a folder":
        beside.mkdir()
    assert existing_file(str(wanted)) == wanted
    assert remarks() == []


@pytest.mark.parametrize(("there", "taken"), [(["npz", "h5"], "h5"), (["npz", "safetensors"], "safetensors")])
def test_of_several_formats_beside_it_the_first_that_is_known_here_is_taken(tmp_path, there, taken) -> None:
    for format in there:
        (tmp_path / f"net.{format}").touch()
    assert existing_file(tmp_path / "net.ckpt") == tmp_path / f"net.{taken}"
