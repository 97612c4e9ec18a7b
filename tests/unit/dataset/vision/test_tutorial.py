"""The dataset of the parallel training tutorial: its modules, names, arguments and order of operations."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import mpiparallel.dataset as ds
import mpiparallel.dataset.transforms.c_transforms as C
import mpiparallel.dataset.vision.c_transforms as vision
from mpiparallel import dtype as mstype
from mpiparallel.communication import get_group_size, get_rank
from mpiparallel.communication.threads import run_world

IMAGES = 12


def create_dataset(data_path, repeat_num=1, batch_size=32, rank_id=0, rank_size=1):
    resize_height = 224
    resize_width = 224
    rescale = 1.0 / 255.0
    shift = 0.0
    rank_id = get_rank()
    rank_size = get_group_size()
    data_set = ds.Cifar10Dataset(data_path, num_shards=rank_size, shard_id=rank_id)
    random_crop_op = vision.RandomCrop((32, 32), (4, 4, 4, 4))
    random_horizontal_op = vision.RandomHorizontalFlip()
    resize_op = vision.Resize((resize_height, resize_width))
    rescale_op = vision.Rescale(rescale, shift)
    normalize_op = vision.Normalize((0.4465, 0.4822, 0.4914), (0.2010, 0.1994, 0.2023))
    changeswap_op = vision.HWC2CHW()
    type_cast_op = C.TypeCast(mstype.int32)
    c_trans = [random_crop_op, random_horizontal_op]
    c_trans += [resize_op, rescale_op, normalize_op, changeswap_op]
    data_set = data_set.map(operations=type_cast_op, input_columns="label")
    data_set = data_set.map(operations=c_trans, input_columns="image")
    data_set = data_set.shuffle(buffer_size=10)
    data_set = data_set.batch(batch_size=batch_size, drop_remainder=True)
    return data_set.repeat(repeat_num)


def test_the_tutorials_function_gives_each_rank_its_batches(tmp_path: Path) -> None:
    """Images of one colour stay so, but for the black that a crop adds; so what each operation did can be told."""
    for stem in range(1, 6):
        records = np.zeros((IMAGES, 3073), np.uint8)
        records[:, 0] = np.arange(IMAGES) % 10
        records[:, 1:] = 255
        (tmp_path / f"data_batch_{stem}.bin").write_bytes(records.tobytes())

    def on_rank(communicator):
        dataset = create_dataset(str(tmp_path), repeat_num=2, batch_size=6)
        return dataset.get_dataset_size(), list(dataset.create_dict_iterator(num_epochs=1, output_numpy=True))

    found = run_world(2, on_rank)
    mean, deviation = np.array([0.4465, 0.4822, 0.4914]), np.array([0.2010, 0.1994, 0.2023])
    white, black = (1 - mean) / deviation, -mean / deviation
    for size, batches in found:
        assert size == len(batches) == 2 * (IMAGES * 5 // 2 // 6)
        for batch in batches:
            assert batch["image"].shape == (6, 3, 224, 224)
            assert batch["image"].dtype == np.float32
            assert batch["label"].shape == (6,)
            assert batch["label"].dtype == np.int32
            np.testing.assert_allclose(batch["image"].max((0, 2, 3)), white, rtol=1e-5)
            assert (batch["image"].min((0, 2, 3)) >= black - 1e-5).all()
    labels = np.sort(np.concatenate([batch["label"] for _, batches in found for batch in batches[: IMAGES * 5 // 12]]))
    np.testing.assert_array_equal(labels, np.sort(np.tile(np.arange(IMAGES) % 10, 5)))
