from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from numpy.typing import NDArray

from mpiparallel.checkpoint.hdf5 import describe_shard, read_attributes, read_box, read_shard, write_shard
from mpiparallel.errors import CheckpointError

DTYPES = [np.dtype(char) for char in "?bhilqBHILQefdFD"]
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6).filter(str.isprintable)
shapes = arrays_of.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
any_array = st.sampled_from(DTYPES).flatmap(lambda dtype: arrays_of.arrays(dtype, shapes))


@settings(deadline=None)
@given(arrays=st.dictionaries(names, any_array, max_size=4))
def test_what_is_written_is_read_and_h5py_reads_the_same(
    tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, NDArray[Any]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.h5"
    digests = write_shard(path, arrays, {})
    described = describe_shard(path)
    assert {name: item.digest for name, item in described.items()} == digests
    back = read_shard(path)
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        assert (described[name].shape, described[name].dtype) == (array.shape, array.dtype)
        np.testing.assert_array_equal(back[name], array, strict=True)
    with h5py.File(path) as file:
        seen = sorted(file[key][()].tobytes() for key in file)
    assert seen == sorted(array.tobytes() for array in arrays.values())


@settings(deadline=None)
@given(data=st.data())
def test_box_is_the_part_of_the_array(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.getbasetemp() / "box.h5"
    array = data.draw(any_array)
    bounds = [sorted(data.draw(st.tuples(*[st.integers(0, extent)] * 2))) for extent in array.shape]
    slices = tuple(slice(*ends) for ends in bounds)
    write_shard(path, {"w": array}, {})
    np.testing.assert_array_equal(read_box(path, "w", slices), array[slices], strict=True)


def test_large_arrays_and_views_of_them_round_trip(tmp_path: Path) -> None:
    whole = np.random.default_rng(1).standard_normal((1500, 700)).astype(np.float32)
    arrays = {"whole": whole, "transposed": whole.T, "strided": whole[::3, 1::2], "small": whole[:2, 0]}
    write_shard(tmp_path / "large.h5", arrays, {})
    for name, array in arrays.items():
        np.testing.assert_array_equal(read_shard(tmp_path / "large.h5", [name])[name], array, strict=True)
    box = (slice(700, 1400), slice(3, 690))
    np.testing.assert_array_equal(read_box(tmp_path / "large.h5", "whole", box), whole[box], strict=True)


text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
attribute = text | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)


@settings(deadline=None)
@given(attributes=st.dictionaries(text.filter(bool), attribute, max_size=4))
def test_attributes_come_back(
    tmp_path_factory: pytest.TempPathFactory, attributes: dict[str, str | int | float]
) -> None:
    path = tmp_path_factory.getbasetemp() / "attributes.h5"
    write_shard(path, {}, attributes)
    assert read_attributes(path) == attributes


@pytest.mark.parametrize(
    "name", ["../up", "/etc/passwd", ".", "..", "...", "a//b", "%2F", "net.w1", "w 1", "é", "x" * 100_000]
)
def test_a_name_is_one_entry_of_the_root_group(tmp_path: Path, name: str) -> None:
    write_shard(tmp_path / "one.h5", {name: np.arange(3)}, {})
    assert read_shard(tmp_path / "one.h5")[name].tolist() == [0, 1, 2]
    with h5py.File(tmp_path / "one.h5") as file:
        assert len(file) == 1
        assert isinstance(next(iter(file.values())), h5py.Dataset)


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", "\ud800"])
def test_a_name_that_cannot_be_stored_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CheckpointError, match="cannot name an array"):
        write_shard(tmp_path / "one.h5", {name: np.arange(3)}, {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", ["O", "U3", "S3", "M8[s]", ">f4", "g", [("a", "f4")]])
def test_a_dtype_that_cannot_be_stored_is_refused(tmp_path: Path, dtype: Any) -> None:
    with pytest.raises(CheckpointError, match='array "w" has dtype'):
        write_shard(tmp_path / "one.h5", {"w": np.zeros(2, dtype)}, {})
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="NumPy 1 itself has at most 32 dims")
def test_what_hdf5_cannot_lay_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"one\.h5: cannot be laid out .*at most 32 dims"):
        write_shard(tmp_path / "one.h5", {"w": np.zeros((1,) * 33)}, {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", [None, True, 2**63, b"x", "a\0b", [1]])
def test_an_attribute_that_cannot_be_stored_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(CheckpointError, match="attribute 'step'"):
        write_shard(tmp_path / "one.h5", {}, {"step": value})


def test_only_known_arrays_and_parts_are_read(tmp_path: Path) -> None:
    write_shard(tmp_path / "one.h5", {"w": np.zeros((2, 3))}, {})
    with pytest.raises(CheckpointError, match='has no array "v"; it has w'):
        read_shard(tmp_path / "one.h5", ["v"])
    for slices in [(slice(0, 1),), (slice(0, 3), slice(0, 1)), (slice(-1, 1), slice(0, 1)), (slice(0, 2, 2),) * 2]:
        with pytest.raises(CheckpointError, match=r"has shape \(2, 3\)"):
            read_box(tmp_path / "one.h5", "w", slices)


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    generator = np.random.default_rng(3)
    arrays = {f"w{index}": generator.standard_normal((40, index)) for index in range(5)}
    write_shard(tmp_path / "shard.h5", arrays, {"prefix": "resnet", "step": 77})
    return tmp_path / "shard.h5"


def all_of(path: Path) -> tuple[Any, ...]:
    arrays = {name: (array.shape, array.dtype, array.tobytes()) for name, array in read_shard(path).items()}
    return arrays, read_attributes(path), {name: item.digest for name, item in describe_shard(path).items()}


def test_no_flipped_bit_goes_unseen(shard: Path) -> None:
    content, truth, messages = shard.read_bytes(), all_of(shard), set()
    chooser = random.Random(5)
    for position in [chooser.randrange(8 * len(content)) for _ in range(800)]:
        damaged = bytearray(content)
        damaged[position // 8] ^= 1 << position % 8
        shard.write_bytes(damaged)
        try:
            assert all_of(shard) == truth
        except CheckpointError as error:
            messages.add(str(error).startswith(f"{shard}: "))
    assert messages == {True}


def test_a_flipped_data_bit_is_named(shard: Path) -> None:
    content = bytearray(shard.read_bytes())
    with h5py.File(shard) as file:
        offset = file["w3"].id.get_offset()
    content[offset + 9] ^= 4
    shard.write_bytes(content)
    with pytest.raises(CheckpointError, match=r'shard.h5: dataset "w3": bytes 0 to 959 have CRC-32 .*, expected '):
        read_shard(shard)
    assert read_shard(shard, ["w2"])["w2"].shape == (40, 2)


def test_no_truncation_goes_unseen(shard: Path) -> None:
    content = shard.read_bytes()
    chooser = random.Random(6)
    for length in [0, len(content) - 1, *(chooser.randrange(len(content)) for _ in range(60))]:
        shard.write_bytes(content[:length])
        with pytest.raises(CheckpointError):
            all_of(shard)


def external(file: h5py.File) -> None:
    file.create_dataset("w", (8,), "u1", external=[("/etc/hostname", 0, 8)])


def virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout((8,), "u1")
    layout[:] = h5py.VirtualSource("/etc/hostname", "w", (8,))
    file.create_virtual_dataset("w", layout)


def external_link(file: h5py.File) -> None:
    file["w"] = h5py.ExternalLink("other.h5", "/w")


def soft_link(file: h5py.File) -> None:
    file["w"] = h5py.SoftLink("/w")


def group(file: h5py.File) -> None:
    file.create_group("w")


def chunked(file: h5py.File) -> None:
    file.create_dataset("w", (8,), "u1", chunks=(4,), compression="gzip")


def objects(file: h5py.File) -> None:
    file.create_dataset("w", (8,), h5py.string_dtype())


def references(file: h5py.File) -> None:
    file.create_dataset("w", (8,), h5py.ref_dtype)


def null(file: h5py.File) -> None:
    file.create_dataset("w", dtype="f4")


def unstored(file: h5py.File) -> None:
    file.create_dataset("w", (2**50,), "u1")


def without_digest(file: h5py.File) -> None:
    file["w"] = np.arange(8)


def foreign_name(file: h5py.File) -> None:
    file["%77"] = np.arange(8)


@pytest.mark.parametrize(
    "hostile",
    [
        external,
        virtual,
        external_link,
        soft_link,
        group,
        chunked,
        objects,
        references,
        null,
        unstored,
        without_digest,
        foreign_name,
    ],
)
def test_what_is_not_plain_data_of_the_file_is_refused(tmp_path: Path, hostile: Callable[[h5py.File], None]) -> None:
    with h5py.File(tmp_path / "hostile.h5", "w") as file:
        hostile(file)
    for read in (read_shard, describe_shard):
        with pytest.raises(CheckpointError, match=r"hostile\.h5: "):
            read(tmp_path / "hostile.h5")


@pytest.mark.parametrize("content", [None, b"", b"no shard"])
def test_what_is_no_shard_is_refused(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "shard.h5").write_bytes(content)
    for read in (read_shard, describe_shard, read_attributes):
        with pytest.raises(CheckpointError, match=r"shard\.h5: cannot be read"):
            read(tmp_path / "shard.h5")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", folder]).returncode:
        pytest.skip("only root may mount a small disk")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("size", [2**20, 2**22, 2**26])
def test_full_disk_is_an_error_that_leaves_the_old_shard(small_disk: Path, size: int) -> None:
    path = small_disk / "shard.h5"
    write_shard(path, {"w": np.arange(8)}, {})
    (small_disk / "other").write_bytes(bytes(2 * 2**20 + 2**19))
    with pytest.raises(CheckpointError, match=rf"{path}: cannot be written .*No space left.*needs \d{{7,8}} bytes"):
        write_shard(path, {f"w{index}": np.ones(size // 16, np.uint8) for index in range(16)}, {})
    assert sorted(file.name for file in small_disk.iterdir()) == ["other", "shard.h5"]
    assert read_shard(path)["w"].tolist() == list(range(8))


def test_completely_full_disk_is_an_error(small_disk: Path) -> None:
    with suppress(OSError):
        (small_disk / "other").write_bytes(bytes(2**22))
    with pytest.raises(CheckpointError, match="No space left"):
        write_shard(small_disk / "shard.h5", {"w": np.arange(8)}, {})
    assert [file.name for file in small_disk.iterdir()] == ["other"]


LIMITED = """
import resource, sys
import numpy as np
from mpiparallel.checkpoint.hdf5 import write_shard
from mpiparallel.errors import CheckpointError
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
try:
    write_shard(sys.argv[1], {"w": np.ones(10**6), "v": np.ones(10**6)}, {})
except CheckpointError as error:
    print(error)
"""


@pytest.mark.parametrize("limit", [0, 100, 10**6, 9 * 10**6])
def test_file_size_limit_is_an_error(tmp_path: Path, limit: int) -> None:
    path = tmp_path / "shard.h5"
    child = subprocess.run(
        [sys.executable, "-c", LIMITED, path, str(limit)], capture_output=True, text=True, timeout=60
    )
    assert child.returncode == 0, child.stderr
    assert child.stdout.startswith(f"{path}: cannot be written ([Errno 27] File too large")
    assert not list(tmp_path.iterdir())
