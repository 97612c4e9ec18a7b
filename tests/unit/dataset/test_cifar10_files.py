"""Which files of CIFAR-10 are taken, and what is nearly one of them and is refused."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import mpiparallel.dataset as ds
from mpiparallel.dataset.array_unpickler import read_pickled_dict
from mpiparallel.dataset.cifar10_files import write_cifar10
from mpiparallel.errors import DatasetError

PLANES = np.zeros((2, 3072), np.uint8)


def samples(dataset: ds.Dataset) -> list[tuple[bytes, int]]:
    return [(row["image"].tobytes(), int(row["label"])) for row in dataset.iterate()]


def test_labels_from_0_to_9_are_those_of_cifar10(tmp_path: Path) -> None:
    (tmp_path / "test_batch.bin").write_bytes(b"".join(bytes([label]) + bytes(3072) for label in range(10)))
    assert [label for _, label in samples(ds.Cifar10Dataset(tmp_path, shuffle=False))] == list(range(10))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"data": PLANES[:0], "labels": []}, "has 0 labels for 0 images, not one for each; take the file from"),
        ({"data": PLANES, "labels": [True, False]}, "the labels are bool, not integers from 0 to 9; download it again"),
        (
            {"data": PLANES.reshape(2, 3, 1024), "labels": [1, 2]},
            r'"data" is uint8 \(2, 3, 1024\), not uint8 \(samples',
        ),
        ({b"data": PLANES, b"labels": (1, 2)}, '"labels" is a tuple, not a list of integers'),
    ],
)
def test_pickles_that_are_nearly_cifar10_are_refused(tmp_path: Path, content: object, said: str) -> None:
    (tmp_path / "test_batch").write_bytes(pickle.dumps(content, protocol=4))
    with pytest.raises(DatasetError, match=f"test_batch: {said}"):
        ds.Cifar10Dataset(tmp_path, "test")


def test_keys_of_a_pickled_dict_are_texts_whatever_they_were(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(pickle.dumps({b"caf\xe9": 1, "b": [2], 3: np.arange(2)}, protocol=4))
    found = read_pickled_dict(tmp_path / "one")
    assert (list(found), found["café"], found["b"], found["3"].tolist()) == (["café", "b", "3"], 1, [2], [0, 1])


def test_binary_files_come_before_pickles_and_the_folder_before_those_in_it(tmp_path: Path) -> None:
    places = ["test_batch.bin", "test_batch", "cifar-10-batches-bin/test_batch.bin", "cifar-10-batches-py/test_batch"]
    for label, place in enumerate(places):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        content = bytes([label]) + bytes(3072)
        if not place.endswith(".bin"):
            content = pickle.dumps({"data": PLANES[:1], "labels": [label]}, protocol=4)
        (tmp_path / place).write_bytes(content)
    for label, place in enumerate(places):
        assert [found for _, found in samples(ds.Cifar10Dataset(tmp_path, "test"))] == [label]
        (tmp_path / place).unlink()


def test_all_files_that_a_usage_lacks_are_named(tmp_path: Path) -> None:
    (tmp_path / "data_batch_2.bin").write_bytes(bytes(3073))
    with pytest.raises(DatasetError) as caught:
        ds.Cifar10Dataset(tmp_path, "train")
    missing = ", ".join(f"data_batch_{number}.bin" for number in (1, 3, 4, 5))
    assert str(caught.value) == (
        f"{tmp_path}: {missing} is missing; unpack the whole archive there, or choose another usage"
    )


def test_a_folder_without_any_file_is_told_every_place_that_was_looked_at(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        ds.Cifar10Dataset(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: holds no CIFAR-10; looked there and in cifar-10-batches-bin for data_batch_1.bin to "
        "data_batch_5.bin and test_batch.bin, there and in cifar-10-batches-py for data_batch_1 to data_batch_5 and "
        "test_batch; unpack cifar-10-binary.tar.gz or cifar-10-python.tar.gz there, or give the folder that holds them"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            bytes(3072),
            "has 3072 bytes, which are no whole number of records of 3073; CIFAR-10's own file has 30730000; unpack or "
            "download the archive again",
        ),
        (
            bytes(3073) + b"\xff" + bytes(3072),
            "the label of sample 1 is 255; labels are 0 to 9; is it CIFAR-10 (not CIFAR-100), and whole? download it "
            "again",
        ),
    ],
)
def test_what_is_wrong_with_a_binary_file_is_told_whole(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "test_batch.bin").write_bytes(content)
    with pytest.raises(DatasetError) as caught:
        ds.Cifar10Dataset(tmp_path)
    assert str(caught.value) == f"{tmp_path}/test_batch.bin: {said}"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            {"data": [1], "labels": [1]},
            '"data" is list, not uint8 (samples, 3072); take the file from cifar-10-python.tar.gz',
        ),
        (
            {"data": PLANES, "labels": np.array([1, 2])},
            '"labels" is a ndarray, not a list of integers; take the file from cifar-10-python.tar.gz',
        ),
        (
            {"data": PLANES, "labels": [1, 2, 3]},
            "has 3 labels for 2 images, not one for each; take the file from cifar-10-python.tar.gz",
        ),
    ],
)
def test_what_is_wrong_with_a_pickle_is_told_whole(tmp_path: Path, content: object, said: str) -> None:
    (tmp_path / "test_batch").write_bytes(pickle.dumps(content, protocol=4))
    with pytest.raises(DatasetError) as caught:
        ds.Cifar10Dataset(tmp_path)
    assert str(caught.value) == f"{tmp_path}/test_batch: {said}"


@pytest.mark.parametrize(
    ("pixels", "labels"),
    [("float32", "uint8"), ("bool", "uint8"), ("int8", "uint8"), ("uint8", "int64"), ("uint8", "bool")],
)
def test_images_and_labels_are_both_written_as_bytes_only(tmp_path: Path, pixels: str, labels: str) -> None:
    with pytest.raises(DatasetError) as caught:
        write_cifar10(tmp_path / "new", "test_batch", np.zeros((2, 32, 32, 3), pixels), np.zeros(2, labels))
    assert str(caught.value) == f"test_batch: images are {pixels} and labels {labels}; give both as uint8"
    assert not (tmp_path / "new").exists()


def test_samples_are_written_to_new_folders_and_those_of_another_file_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "one" / "two"
    images = np.arange(2 * 3072, dtype=np.int64).astype(np.uint8).reshape(2, 32, 32, 3)
    write_cifar10(folder, "test_batch", images, np.uint8([3, 9]))
    write_cifar10(folder, "data_batch_1", images[:1], np.uint8([4]))
    found = list(ds.Cifar10Dataset(folder, "test", shuffle=False).iterate())
    np.testing.assert_array_equal(np.stack([row["image"] for row in found]), images)
    assert [int(row["label"]) for row in found] == [3, 9]
    (tmp_path / "file").touch()
    with pytest.raises(DatasetError) as caught:
        write_cifar10(tmp_path / "file", "test_batch", images, np.uint8([3, 9]))
    assert str(caught.value) == (
        f"{tmp_path}/file/test_batch.bin: cannot be written (File exists); give a folder of your own"
    )
