"""The image example on real ranks, with made-up images in CIFAR-10's binary format."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.mpi

TABLES = Path(__file__).parents[3] / "rank_tables"
SMALL = ("--network", "resnet18", "--epochs", "2", "--batch_size", "4", "--image_size", "32")


def check_training(ended, folder: Path) -> None:
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.search(r"epoch: 2 step: 5, loss is \d\.\d+", ended.stdout), ended.stdout
    assert re.search(r"epoch: 2 test accuracy is [01]\.\d{4}", ended.stdout), ended.stdout
    assert (folder / "device1" / "train.log1").exists()
    shards = sorted(path.parent.name for path in (folder / "checkpoints").glob("rank_*/resnet-2_5.h5"))
    assert shards == ["rank_0", "rank_1"]


@pytest.mark.parametrize("mode", ["data_parallel", "semi_auto_parallel"])
def test_run_sh_trains_on_two_ranks_and_saves_a_shard_each(images, mode, mpi_python, launch, tmp_path) -> None:
    check_training(launch("run.sh", images, 2, *SMALL, "--parallel_mode", mode, python=mpi_python), tmp_path)


def test_run_cluster_sh_trains_on_the_devices_of_a_rank_table(images, mpi_python, launch, tmp_path) -> None:
    table = TABLES / "rank_table_2pcs.json"
    ended = launch("run_cluster.sh", images.name, table, 2, 0, *SMALL, python=mpi_python)
    check_training(ended, tmp_path)
    environment = (tmp_path / "device1" / "env1.log").read_text()
    assert f"RANK_TABLE_FILE={table}\n" in environment
    assert f"DATA_PATH={images}\n" in environment
    assert "DEVICE_ID=1\n" in environment


def test_a_damaged_file_ends_the_job_on_every_rank_and_is_named(images, mpi_python, launch, tmp_path) -> None:
    with (images / "data_batch_3.bin").open("ab") as stream:
        stream.write(b"x")
    ended = launch("run.sh", images, 2, *SMALL, python=mpi_python)
    assert ended.returncode not in (0, 124), ended.stdout
    assert "data_batch_3.bin: has 24585 bytes, which are no whole number of records" in ended.stderr
    assert not (tmp_path / "checkpoints").exists()


def test_fewer_images_than_a_batch_on_each_rank_end_the_job(images, mpi_python, launch, tmp_path) -> None:
    ended = launch("run.sh", images, 2, *SMALL, "--batch_size", "64", python=mpi_python)
    assert ended.returncode not in (0, 124), ended.stdout
    assert "cifar-10-batches-bin: too few images for one step on each rank; give a smaller --batch_size" in ended.stderr
