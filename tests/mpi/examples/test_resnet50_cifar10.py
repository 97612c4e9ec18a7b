"""The image example on real ranks, with made-up images in CIFAR-10's binary format."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from mpiparallel.dataset.cifar10_files import write_cifar10

pytestmark = pytest.mark.mpi

ROOT = Path(__file__).parents[3]


@pytest.fixture
def images(tmp_path):
    """A folder of images whose brightness is their label."""
    random = np.random.default_rng(0)
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for stem in [f"data_batch_{index}" for index in range(1, 6)] + ["test_batch"]:
        labels = random.integers(0, 10, 8)
        pixels = labels[:, None, None, None] * 25 + random.integers(0, 20, (8, 32, 32, 3))
        write_cifar10(folder, stem, pixels.astype(np.uint8), labels.astype(np.uint8))
    return folder


@pytest.mark.parametrize("mode", ["data_parallel", "semi_auto_parallel"])
def test_run_sh_trains_on_two_ranks_and_saves_a_shard_each(images, mode, mpi_python, tmp_path) -> None:
    words = [
        "--network",
        "resnet18",
        "--epochs",
        "2",
        "--batch_size",
        "4",
        "--image_size",
        "32",
        "--parallel_mode",
        mode,
    ]
    done = subprocess.run(
        ["sh", str(ROOT / "launchers" / "run.sh"), str(images), "2", *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHON": str(mpi_python), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"epoch: 2 step: 5, loss is \d\.\d+", done.stdout), done.stdout
    assert (tmp_path / "device1" / "train.log1").exists()
    shards = sorted(path.parent.name for path in (tmp_path / "checkpoints").glob("rank_*/resnet-2_5.h5"))
    assert shards == ["rank_0", "rank_1"]
