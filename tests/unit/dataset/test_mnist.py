"""MNIST: files in LeCun's format are read, and damaged ones are told from sound ones."""

from __future__ import annotations

import struct

import numpy as np
import pytest

import mpiparallel.dataset as ds
from mpiparallel.context.simulation import Simulation, simulating
from mpiparallel.errors import DatasetError


def write(folder, half, images, labels):
    count, height, width = images.shape
    (folder / f"{half}-images-idx3-ubyte").write_bytes(
        struct.pack(">4I", 0x803, count, height, width) + images.tobytes()
    )
    (folder / f"{half}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, len(labels)) + labels.tobytes())


@pytest.fixture
def folder(tmp_path):
    random = np.random.default_rng(1)
    for half, count in (("train", 6), ("t10k", 3)):
        images = random.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        write(tmp_path, half, images, np.arange(count, dtype=np.uint8))
    return tmp_path


@pytest.mark.parametrize(
    ("usage", "labels"), [("train", list(range(6))), ("test", [0, 1, 2]), ("all", [*range(6), 0, 1, 2]), (None, None)]
)
def test_images_and_labels_are_those_of_the_files(folder, usage, labels) -> None:
    rows = list(ds.MnistDataset(folder, usage, shuffle=False).iterate())
    assert [int(row["label"]) for row in rows] == (labels or [*range(6), 0, 1, 2])
    assert (rows[0]["image"].shape, rows[0]["image"].dtype, rows[0]["label"].dtype) == (
        (28, 28, 1),
        np.uint8,
        np.uint32,
    )
    half = "t10k" if usage == "test" else "train"
    content = (folder / f"{half}-images-idx3-ubyte").read_bytes()[16 : 16 + 784]
    assert rows[0]["image"].tobytes() == content


def test_shards_share_the_samples(folder) -> None:
    shards = [ds.MnistDataset(folder, "train", num_shards=2, shard_id=rank) for rank in range(2)]
    assert sorted(int(row["label"]) for shard in shards for row in shard.iterate()) == list(range(6))


def test_what_is_no_mnist_is_refused(folder) -> None:
    with pytest.raises(DatasetError, match="usage is 'valid'"):
        ds.MnistDataset(folder, "valid")
    labels = folder / "train-labels-idx1-ubyte"
    sound = labels.read_bytes()
    for content, message in (
        (sound[:-1], r"has 5 bytes, not \(6,\)"),
        (b"\x1f\x8b" + sound, "does not begin as an IDX file of 1 dims; unpack it"),
        (struct.pack(">2I", 0x801, 5) + bytes(5), "has 5 labels for 6 images"),
        (sound[:-1] + b"\x0a", "has the label 10; labels are 0 to 9"),
    ):
        labels.write_bytes(content)
        with pytest.raises(DatasetError, match=message):
            ds.MnistDataset(folder, "train")
    labels.unlink()
    with pytest.raises(DatasetError, match="cannot be read"):
        ds.MnistDataset(folder, "train")
    with pytest.raises(DatasetError, match="holds no whole MNIST"):
        ds.MnistDataset(folder / "elsewhere")


@pytest.mark.parametrize(
    ("kind", "usage", "samples"),
    [
        (ds.MnistDataset, "train", 60_000),
        (ds.MnistDataset, "test", 10_000),
        (ds.MnistDataset, None, 70_000),
        (ds.Cifar10Dataset, "train", 50_000),
        (ds.Cifar10Dataset, "test", 10_000),
        (ds.Cifar10Dataset, "all", 60_000),
    ],
)
def test_what_is_not_there_while_a_program_is_simulated_has_as_many_samples_as_when_downloaded(
    kind, usage, samples, tmp_path
) -> None:
    with simulating(Simulation()):
        assert kind(tmp_path / "elsewhere", usage).get_dataset_size() == samples


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (struct.pack(">2I", 0x801, 6) + bytes(9), "has 9 bytes, not (6,); unpack it anew"),
        (struct.pack(">2I", 0x801, 7) + bytes(7), "has 7 labels for 6 images; unpack both files anew"),
        (
            struct.pack(">2I", 0x801, 6) + bytes([0, 255, 9, 10, 0, 0]),
            "has the label 255; labels are 0 to 9; is it MNIST? unpack it anew",
        ),
        (None, "cannot be read (No such file or directory); unpack the archive of MNIST there"),
    ],
)
def test_what_is_wrong_with_labels_is_told_whole(folder, content, said) -> None:
    labels = folder / "train-labels-idx1-ubyte"
    labels.unlink()
    if content is not None:
        labels.write_bytes(content)
    with pytest.raises(DatasetError) as caught:
        ds.MnistDataset(folder, "train")
    assert str(caught.value) == f"{labels}: {said}"
    assert len(ds.MnistDataset(folder, "test")) == 3


def test_a_half_that_is_not_there_is_told_by_its_file_and_the_other_is_read_alone(folder) -> None:
    (folder / "train-images-idx3-ubyte").unlink()
    assert [int(row["label"]) for row in ds.MnistDataset(folder, shuffle=False).iterate()] == [0, 1, 2]
    with pytest.raises(DatasetError, match="train-images-idx3-ubyte: cannot be read"):
        ds.MnistDataset(folder, "train")
    with pytest.raises(DatasetError) as caught:
        ds.MnistDataset(folder, "valid")
    assert str(caught.value) == 'MnistDataset: usage is \'valid\'; give "train", "test", "all" or None'


def test_files_that_are_there_are_read_while_a_program_is_simulated(folder) -> None:
    with simulating(Simulation()):
        assert len(ds.MnistDataset(folder)) == 9
        row = next(ds.MnistDataset(folder, "test", shuffle=False).iterate())
        assert row["image"].any()
        stand_in = next(ds.MnistDataset(folder / "elsewhere").iterate())
        assert (stand_in["image"].any(), int(stand_in["label"])) == (False, 0)
    with pytest.raises(DatasetError, match="holds no whole MNIST"):
        ds.MnistDataset(folder / "elsewhere")
