"""Data made up for trainings: images in CIFAR-10's binary format, and pairs of sentences. Both can be learned from."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mpiparallel.dataset.cifar10_files import write_cifar10

_FILES = [f"data_batch_{index}" for index in range(1, 6)] + ["test_batch"]


def write_images(folder: Path, count: int = 8) -> Path:
    """Write the six files, of ``count`` images each, whose brightness is their label; return their folder."""
    random = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    for stem in _FILES:
        labels = random.integers(0, 10, count)
        pixels = labels[:, None, None, None] * 25 + random.integers(0, 20, (count, 32, 32, 3))
        write_cifar10(folder, stem, pixels.astype(np.uint8), labels.astype(np.uint8))
    return folder


def write_sentences(path: Path, steps: int) -> Path:
    """Write the pairs of sentences of so many steps of 32, each longer than the samples need.

    Each word follows from the one before, so that there is something to learn in every epoch.
    """
    firsts = np.random.default_rng(1).integers(0, 90, 32 * steps)
    pairs = [[[f"{kind}{(first + place) % 90}" for place in range(14)] for kind in "ab"] for first in firsts]
    path.write_text("".join(f"{' '.join(one)}\t{' '.join(other)}\n" for one, other in pairs), encoding="utf-8")
    return path
