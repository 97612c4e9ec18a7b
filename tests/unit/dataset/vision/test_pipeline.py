"""The pipeline of MindSpore's tutorial of distributed training, on made-up images."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import mpiparallel.dataset as ds
import mpiparallel.dataset.transforms.c_transforms as C
import mpiparallel.dataset.vision.c_transforms as vision
from mpiparallel import dtype as mstype

LENGTHS = {"data_batch_1": 8, "data_batch_2": 6, "data_batch_3": 5, "data_batch_4": 5, "data_batch_5": 8}
SAMPLES = sum(LENGTHS.values())
Batch = dict[str, npt.NDArray[Any]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of 32 images in CIFAR-10's binary format."""
    generator = np.random.default_rng(4)
    for stem, length in LENGTHS.items():
        records = generator.integers(0, 256, (length, 3073), np.uint8)
        records[:, 0] %= 10
        (tmp_path / f"{stem}.bin").write_bytes(records.tobytes())
    return tmp_path


def create_dataset(
    folder: Path, batch_size: int, rank_id: int, rank_size: int, size: int = 224, repeat_num: int = 1
) -> ds.Dataset:
    data_set: ds.Dataset = ds.Cifar10Dataset(folder, num_shards=rank_size, shard_id=rank_id)
    on_images = [
        vision.RandomCrop((32, 32), (4, 4, 4, 4)),
        vision.RandomHorizontalFlip(),
        vision.Resize((size, size)),
        vision.Rescale(1.0 / 255.0, 0.0),
        vision.Normalize((0.4465, 0.4822, 0.4914), (0.2010, 0.1994, 0.2023)),
        vision.HWC2CHW(),
    ]
    data_set = data_set.map(operations=C.TypeCast(mstype.int32), input_columns="label")
    data_set = data_set.map(operations=on_images, input_columns="image")
    data_set = data_set.shuffle(buffer_size=10)
    data_set = data_set.batch(batch_size=batch_size, drop_remainder=True)
    return data_set.repeat(repeat_num)


def augmented(folder: Path, rank_size: int, epoch: int) -> Counter[bytes]:
    """Count the augmented samples that all ranks together read in ``epoch``."""
    counts: Counter[bytes] = Counter()
    for rank in range(rank_size):
        for batch in create_dataset(folder, 4, rank, rank_size, size=32).iterate(epoch):
            pairs = zip(batch["image"], batch["label"], strict=True)
            counts.update(image.tobytes() + label.tobytes() for image, label in pairs)
    return counts


def assert_same(left: list[Batch], right: list[Batch]) -> None:
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        np.testing.assert_array_equal(one["image"], other["image"])
        np.testing.assert_array_equal(one["label"], other["label"])


def test_the_batches_have_the_shapes_and_dtypes_that_the_network_takes(folder: Path) -> None:
    data_set = create_dataset(folder, batch_size=8, rank_id=0, rank_size=1)
    batches = list(data_set.create_dict_iterator(num_epochs=1, output_numpy=True))
    assert len(batches) == data_set.get_dataset_size() == 4
    for batch in batches:
        assert batch["image"].shape == (8, 3, 224, 224)
        assert batch["image"].dtype == np.float32
        assert batch["image"].flags.c_contiguous
        assert batch["label"].shape == (8,)
        assert batch["label"].dtype == np.int32
    assert -2.5 < min(batch["image"].min() for batch in batches) < -2
    assert 2 < max(batch["image"].max() for batch in batches) < 3


def test_four_shards_together_read_each_sample_once_in_every_epoch(folder: Path) -> None:
    whole = Counter(row["image"].tobytes() for row in ds.Cifar10Dataset(folder, shuffle=False).iterate())
    assert len(whole) == SAMPLES
    for epoch in range(2):
        read: Counter[bytes] = Counter()
        for rank in range(4):
            shard = ds.Cifar10Dataset(folder, num_shards=4, shard_id=rank)
            read.update(row["image"].tobytes() for row in shard.iterate(epoch))
        assert read == whole


@pytest.mark.parametrize("rank_size", [2, 4, 8])
def test_the_augmented_samples_are_the_same_for_any_number_of_shards(folder: Path, rank_size: int) -> None:
    for epoch in range(2):
        alone = augmented(folder, 1, epoch)
        assert len(alone) == SAMPLES
        assert augmented(folder, rank_size, epoch) == alone
    assert augmented(folder, 1, 0) != augmented(folder, 1, 1)


def test_a_resume_in_the_middle_of_an_epoch_goes_on_as_if_never_stopped(folder: Path) -> None:
    def resumed(epoch: int, skip: int) -> list[Batch]:
        return list(create_dataset(folder, 2, rank_id=1, rank_size=4, size=48, repeat_num=2).iterate(epoch, skip))

    for epoch in range(2):
        uninterrupted = resumed(epoch, 0)
        assert len(uninterrupted) == 8
        for skip in (1, 3, 4, 7, 8):
            assert_same(resumed(epoch, skip), uninterrupted[skip:])
