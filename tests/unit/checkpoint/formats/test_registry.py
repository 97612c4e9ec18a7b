"""What holds for each format of arrays in files."""

from __future__ import annotations

import errno
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.files import durable_file
from mpiparallel.checkpoint.files.array_file import infos_of, read_array
from mpiparallel.checkpoint.formats.registry import FORMATS, format_of, open_file, write_file
from mpiparallel.errors import CheckpointError

# What all formats have: MindSpore loads no complex numbers.
DTYPES = ["?", *(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)), "f2", "f4", "f8"]
NAMES = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=12).filter(
    lambda name: ".." not in name and "\\" not in name and not name.startswith(("/", "%", "__metadata__"))
)
STATES = st.dictionaries(
    NAMES,
    st.sampled_from(DTYPES).flatmap(lambda dtype: arrays(dtype, array_shapes(min_dims=0, max_dims=4, max_side=5))),
    max_size=6,
)
formats = pytest.mark.parametrize("suffix", [format_.suffix for format_ in FORMATS.values()])


def sample():
    return {"net.w1": np.arange(12.0).reshape(3, 4), "flag": np.array(True), "half": np.arange(5, dtype=np.float16)}


def write(path, state):
    write_file(path, infos_of(state), state.items(), {"step": 7})


def read_all(path):
    with open_file(path) as file:
        return {name: read_array(file, name) for name in file.arrays}


@formats
@settings(max_examples=40)
@given(state=STATES)
def test_what_is_written_is_read_bit_for_bit(suffix, state, tmp_path_factory):
    path = tmp_path_factory.mktemp("formats") / f"one{suffix}"
    write_file(path, infos_of(state), state.items(), {})
    found = read_all(path)
    assert sorted(found) == sorted(state)
    for name, array in state.items():
        assert (found[name].shape, found[name].dtype) == (array.shape, array.dtype)
        assert found[name].tobytes() == array.tobytes()


@formats
def test_arrays_of_any_strides_are_written(suffix, tmp_path):
    path = tmp_path / f"one{suffix}"
    array = np.arange(24.0).reshape(2, 3, 4)
    state = {
        "transposed": array.transpose(2, 0, 1),
        "reversed": array[::-1, :, ::2],
        "broadcast": np.broadcast_to(3, (2, 2)),
    }
    write(path, state)
    found = read_all(path)
    for name, expected in state.items():
        np.testing.assert_array_equal(found[name], expected)


@formats
@pytest.mark.parametrize(
    "state",
    [
        {"net.w1": np.zeros((3, 4)), "half": np.zeros(5, "f2"), "flag": np.array(True)},
        {"net.w1": np.zeros((3, 4)), "flag": np.array(True)},
        {**sample(), "more": np.zeros(1)},
        {**sample(), "half": np.zeros(6, "f2")},
        {**sample(), "half": np.zeros(5, "f4")},
    ],
    ids=["another order", "one fewer", "one more", "another shape", "another dtype"],
)
def test_arrays_other_than_announced_leave_the_file_as_it_was(suffix, state, tmp_path):
    path = tmp_path / f"one{suffix}"
    path.write_bytes(b"old")
    with pytest.raises(CheckpointError, match=r"one\."):
        write_file(path, infos_of(sample()), state.items(), {})
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@formats
def test_a_full_disk_is_an_error_that_says_how_much_was_needed(suffix, tmp_path, monkeypatch):
    path = tmp_path / f"one{suffix}"
    path.write_bytes(b"old")
    state = {"w": np.zeros(1 << 16)}

    def fill_up(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(durable_file.os, "fsync", fill_up)
    with pytest.raises(CheckpointError, match=r"No space left on device.* 52\d{4} bytes"):
        write(path, state)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@formats
def test_a_folder_that_is_not_there_is_told(suffix, tmp_path):
    with pytest.raises(CheckpointError, match="cannot be written"):
        write(tmp_path / "none" / f"one{suffix}", sample())


@formats
@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "nothing", "name with NUL"])
def test_only_regular_files_are_opened(suffix, kind, tmp_path):
    path = tmp_path / f"one{suffix}"
    if kind == "link":
        write(tmp_path / f"other{suffix}", sample())
        path.symlink_to(f"other{suffix}")
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "name with NUL":
        path = Path(f"a\0{suffix}")
    with pytest.raises(CheckpointError):
        open_file(path)


@formats
def test_a_file_of_another_format_is_refused(suffix, tmp_path):
    for other in FORMATS.values():
        if other.suffix != suffix:
            write(tmp_path / f"one{other.suffix}", sample())
            path = tmp_path / f"two{suffix}"
            path.write_bytes((tmp_path / f"one{other.suffix}").read_bytes())
            with pytest.raises(CheckpointError, match=r"two\."):
                open_file(path)


@formats
def test_what_is_asked_for_must_be_there_and_fit(suffix, tmp_path):
    path = tmp_path / f"one{suffix}"
    write(path, sample())
    with open_file(path) as file:
        for name, first, target, reason in (
            ("none", 0, np.empty(1), "has no array"),
            ("net.w1", 0, np.empty((2, 2)), "net.w1"),
            ("net.w1", 0, np.empty(4)[::2], "net.w1"),
            ("net.w1", 0, np.empty(1, np.float32), "float32"),
            ("net.w1", 10, np.empty(3), "12"),
            ("net.w1", -1, np.empty(1), "12"),
        ):
            with pytest.raises(CheckpointError, match=reason):
                file.fill(name, first, target)


@formats
def test_closing_twice_does_nothing(suffix, tmp_path):
    path = tmp_path / f"one{suffix}"
    write(path, sample())
    file = open_file(path)
    file.close()
    file.close()


@formats
def test_one_array_at_a_time_is_in_memory(suffix, tmp_path):
    path, size = tmp_path / f"one{suffix}", 1 << 20
    infos = {f"w{index}": TensorSpec((size,), np.dtype(np.uint8)) for index in range(16)}
    tracemalloc.start()
    try:
        write_file(path, infos, ((name, np.full(size, 1, np.uint8)) for name in infos), {})
        with open_file(path) as file:
            assert all(read_array(file, name).all() for name in file.arrays)
        assert tracemalloc.get_traced_memory()[1] < 6 * size
    finally:
        tracemalloc.stop()


def test_a_suffix_that_tells_no_format_is_refused():
    for name in ("one.pt", "one", ".h5", "one.h5.gz"):
        with pytest.raises(CheckpointError, match=r"use one of \.h5, \.ckpt, \.safetensors, \.npz"):
            format_of(name)
