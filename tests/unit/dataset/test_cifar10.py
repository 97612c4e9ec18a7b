"""CIFAR-10 from made-up archives, whose bytes are written here as the format says."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import mpiparallel.dataset as ds
from mpiparallel.dataset.array_unpickler import read_pickled_dict
from mpiparallel.dataset.cifar10_files import write_cifar10
from mpiparallel.errors import DatasetError

STEMS = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")
LENGTHS = dict(zip(STEMS, (4, 3, 5, 2, 4, 6), strict=True))
Bytes = npt.NDArray[np.uint8]


def batch(stem: str) -> tuple[Bytes, list[int]]:
    """Return planes (n, 3072) and n labels, the same ones whatever the archive."""
    generator = np.random.default_rng(STEMS.index(stem))
    return generator.integers(0, 256, (LENGTHS[stem], 3072), np.uint8), generator.integers(
        0, 10, LENGTHS[stem]
    ).tolist()


def short_text(text: str) -> bytes:
    return b"U" + bytes([len(text)]) + text.encode()


def python2_pickle(planes: Bytes, labels: list[int]) -> bytes:
    """Return what cPickle of Python 2 writes at protocol 2, with which CIFAR-10's own files were made."""
    dtype = b"cnumpy\ndtype\n" + short_text("u1") + b"K\x00K\x01\x87R(K\x03" + short_text("|") + b"NNN"
    dtype += b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    shape = b"K" + bytes([len(planes)]) + b"M" + struct.pack("<H", 3072) + b"\x86"
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + short_text("b") + b"\x87R"
    array += b"(K\x01" + shape + dtype + b"\x89T" + struct.pack("<I", planes.size) + planes.tobytes() + b"tb"
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(" + short_text("data") + array + short_text("labels") + listed + b"u."


def binary(planes: Bytes, labels: list[int]) -> bytes:
    return b"".join(bytes([label]) + plane.tobytes() for plane, label in zip(planes, labels, strict=True))


def write_archive(folder: Path, kind: str) -> Path:
    folder.mkdir(parents=True)
    for stem in STEMS:
        planes, labels = batch(stem)
        if kind == "bin":
            (folder / f"{stem}.bin").write_bytes(binary(planes, labels))
        elif kind == "py":
            (folder / stem).write_bytes(python2_pickle(planes, labels))
        else:
            (folder / stem).write_bytes(pickle.dumps({b"data": planes, b"labels": labels}, protocol=4))
    return folder


def samples(dataset: ds.Dataset, epoch: int = 0) -> list[tuple[bytes, int]]:
    return [(row["image"].tobytes(), int(row["label"])) for row in dataset.iterate(epoch)]


def expected(stems: tuple[str, ...]) -> list[tuple[bytes, int]]:
    pairs = []
    for stem in stems:
        planes, labels = batch(stem)
        images = [np.stack([plane[:1024], plane[1024:2048], plane[2048:]], axis=-1) for plane in planes]
        pairs += [(image.tobytes(), label) for image, label in zip(images, labels, strict=True)]
    return pairs


@pytest.mark.parametrize("kind", ["bin", "py", "repickled"])
@pytest.mark.parametrize(("usage", "stems"), [("train", STEMS[:5]), ("test", STEMS[5:]), ("all", STEMS), (None, STEMS)])
def test_both_archives_give_the_samples_of_their_usage_in_order(
    tmp_path: Path, kind: str, usage: str | None, stems: tuple[str, ...]
) -> None:
    dataset = ds.Cifar10Dataset(write_archive(tmp_path / "here", kind), usage, shuffle=False)
    assert samples(dataset) == expected(stems)
    assert dataset.get_dataset_size() == sum(LENGTHS[stem] for stem in stems)


def test_the_columns_are_those_of_mindspore(tmp_path: Path) -> None:
    dataset = ds.Cifar10Dataset(str(write_archive(tmp_path / "here", "bin")))
    assert dataset.get_col_names() == ["image", "label"]
    assert dataset.output_shapes() == [[32, 32, 3], []]
    assert dataset.output_types() == [np.uint8, np.uint32]
    image = next(dataset.create_dict_iterator(output_numpy=True))["image"]
    assert type(image) is np.ndarray
    assert image.flags.writeable


@pytest.mark.parametrize(("name", "kind"), [("cifar-10-batches-bin", "bin"), ("cifar-10-batches-py", "py")])
def test_the_folder_above_an_archive_will_do(tmp_path: Path, name: str, kind: str) -> None:
    write_archive(tmp_path / name, kind)
    assert samples(ds.Cifar10Dataset(tmp_path, "test", shuffle=False)) == expected(STEMS[5:])


def test_shuffle_sampler_and_num_samples_choose_the_order(tmp_path: Path) -> None:
    folder = write_archive(tmp_path / "here", "bin")
    whole = expected(STEMS)
    shuffled = samples(ds.Cifar10Dataset(folder))
    assert shuffled != whole
    assert sorted(shuffled) == sorted(whole)
    assert samples(ds.Cifar10Dataset(folder, sampler=[23, 0])) == [whole[23], whole[0]]
    assert samples(ds.Cifar10Dataset(folder, shuffle=False, num_samples=5)) == whole[:5]


def test_half_an_archive_is_enough_when_no_usage_is_named(tmp_path: Path) -> None:
    folder = write_archive(tmp_path / "here", "bin")
    (folder / "test_batch.bin").unlink()
    assert samples(ds.Cifar10Dataset(folder, shuffle=False)) == expected(STEMS[:5])
    with pytest.raises(DatasetError, match=r"here: test_batch\.bin is missing; unpack the whole archive"):
        ds.Cifar10Dataset(folder, "all")
    (folder / "data_batch_3.bin").unlink()
    with pytest.raises(DatasetError, match=r"data_batch_3\.bin is missing"):
        ds.Cifar10Dataset(folder)


def test_a_folder_without_the_files_is_told_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        ds.Cifar10Dataset(tmp_path / "nowhere")
    for name in ("nowhere", "cifar-10-batches-bin", "cifar-10-batches-py", "data_batch_1.bin", "test_batch", "unpack"):
        assert name in str(caught.value)


def test_an_unknown_usage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match='usage is \'valid\'; give "train", "test", "all" or None'):
        ds.Cifar10Dataset(tmp_path, "valid")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"test_batch\.bin: has 0 bytes"),
        (bytes(3073 + 3072), r"test_batch\.bin: has 6145 bytes, .* records of 3073; .* 30730000"),
        (bytes(3073) + b"\x0a" + bytes(3072), r"test_batch\.bin: the label of sample 1 is 10; labels are 0 to 9"),
    ],
)
def test_a_binary_file_of_wrong_size_or_label_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "test_batch.bin").write_bytes(content)
    with pytest.raises(DatasetError, match=message):
        ds.Cifar10Dataset(tmp_path, "test")


class _Command:
    """A pickle that, read by ``pickle.load``, makes a folder."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.made),)


def test_a_pickle_that_calls_a_function_is_refused_before_the_call(tmp_path: Path) -> None:
    made = tmp_path / "made"
    (tmp_path / "test_batch").write_bytes(pickle.dumps({"data": _Command(made)}))
    with pytest.raises(DatasetError, match=r"test_batch: is no pickle of arrays: it asks for posix\.mkdir"):
        ds.Cifar10Dataset(tmp_path, "test")
    assert not made.exists()
    (tmp_path / "test_batch").write_bytes(b"cbuiltins\neval\n(V1\ntR.")
    with pytest.raises(DatasetError, match=r"it asks for builtins\.eval"):
        ds.Cifar10Dataset(tmp_path, "test")


PLANES = np.zeros((2, 3072), np.uint8)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1, 2], "holds a list, not a dict"),
        ({"labels": [1, 2]}, '"data" is NoneType'),
        ({"data": PLANES[:, :-1], "labels": [1, 2]}, r'"data" is uint8 \(2, 3071\), not uint8 \(samples, 3072\)'),
        ({"data": PLANES.astype(float), "labels": [1, 2]}, '"data" is float64'),
        ({"data": PLANES, "fine_labels": [1, 2]}, '"labels" is a NoneType'),
        ({"data": PLANES, "labels": [1, [2]]}, "not a list of integers"),
        ({"data": PLANES, "labels": [1]}, "has 1 labels for 2 images"),
        ({"data": PLANES, "labels": [1, 10]}, "the label of sample 1 is 10"),
        ({"data": PLANES, "labels": [-1, 10]}, "the label of sample 0 is -1"),
        ({"data": PLANES, "labels": [2**70, 1]}, "the labels are object"),
    ],
)
def test_a_pickle_of_something_else_is_refused(tmp_path: Path, content: object, message: str) -> None:
    (tmp_path / "test_batch").write_bytes(pickle.dumps(content, protocol=4))
    with pytest.raises(DatasetError, match=f"test_batch: .*{message}"):
        ds.Cifar10Dataset(tmp_path, "test")


@pytest.mark.parametrize("kept", [0, 1, 100, -1])
def test_a_truncated_pickle_is_refused(tmp_path: Path, kept: int) -> None:
    (tmp_path / "test_batch").write_bytes(python2_pickle(*batch("test_batch"))[:kept])
    with pytest.raises(DatasetError, match="test_batch: is no pickle of arrays"):
        ds.Cifar10Dataset(tmp_path, "test")


def test_what_is_written_is_the_format_and_nothing_is_overwritten(tmp_path: Path) -> None:
    planes, labels = batch("test_batch")
    images = np.ascontiguousarray(planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    for _ in range(2):
        write_cifar10(tmp_path, "test_batch", images, np.array(labels, np.uint8))
        assert [path.name for path in tmp_path.iterdir()] == ["test_batch.bin"]
        assert (tmp_path / "test_batch.bin").read_bytes() == binary(planes, labels)
    with pytest.raises(DatasetError, match=r"test_batch\.bin: holds other samples"):
        write_cifar10(tmp_path, "test_batch", 255 - images, np.array(labels, np.uint8))
    assert (tmp_path / "test_batch.bin").read_bytes() == binary(planes, labels)
    with pytest.raises(DatasetError, match=r"test_batch\.bin: cannot be written"):
        write_cifar10(tmp_path / "test_batch.bin" / "below", "test_batch", images, np.array(labels, np.uint8))


def test_samples_that_are_no_bytes_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="labels int64; give both as uint8"):
        write_cifar10(tmp_path, "test_batch", np.zeros((2, 32, 32, 3), np.uint8), np.zeros(2, np.int64))
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_archive(tmp_path / "here", "bin")

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(np, "memmap", refused)
    with pytest.raises(DatasetError, match=r"test_batch\.bin: cannot be read \(Permission denied\); check its perm"):
        ds.Cifar10Dataset(folder, "test")


def test_more_shards_than_samples_read_some_again_so_that_all_have_as_many(tmp_path: Path) -> None:
    folder = write_archive(tmp_path / "here", "bin")
    shards = [ds.Cifar10Dataset(folder, "test", num_shards=8, shard_id=shard) for shard in range(8)]
    assert [len(shard) for shard in shards] == [1] * 8
    assert {sample for shard in shards for sample in samples(shard)} == set(expected(STEMS[5:]))


@pytest.mark.parametrize(
    ("shards", "message"),
    [
        ({"num_shards": 0, "shard_id": 0}, "num_shards is 0; give an integer of 1 or more"),
        ({"num_shards": 2, "shard_id": 2}, "shard_id is 2, but num_shards is 2; give 0 to 1"),
        ({"num_shards": 2}, "num_shards is 2 and shard_id is None; give both or neither"),
    ],
)
def test_wrong_shards_are_refused(tmp_path: Path, shards: dict[str, int], message: str) -> None:
    folder = write_archive(tmp_path / "here", "bin")
    with pytest.raises(DatasetError, match=f"Cifar10Dataset: {message}"):
        ds.Cifar10Dataset(folder, **shards)


def test_a_pickle_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"data_batch_1: cannot be read \(No such file or directory\); check"):
        read_pickled_dict(tmp_path / "data_batch_1")
