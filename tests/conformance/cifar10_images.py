"""A few made-up images in CIFAR-10's binary format, whose brightness is their label."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mpiparallel.dataset.cifar10_files import write_cifar10

_FILES = [f"data_batch_{index}" for index in range(1, 6)] + ["test_batch"]


def write_images(folder: Path) -> Path:
    """Write the six files, of eight images each, into a folder of the archive's name in ``folder``, and return that."""
    random = np.random.default_rng(0)
    place = folder / "cifar-10-batches-bin"
    place.mkdir()
    for stem in _FILES:
        labels = random.integers(0, 10, 8)
        pixels = labels[:, None, None, None] * 25 + random.integers(0, 20, (8, 32, 32, 3))
        write_cifar10(place, stem, pixels.astype(np.uint8), labels.astype(np.uint8))
    return place
