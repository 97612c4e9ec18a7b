from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from mpiparallel.dataset.cifar10_files import write_cifar10

ROOT = Path(__file__).parents[3]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A folder of images whose brightness is their label."""
    random = np.random.default_rng(0)
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for stem in [f"data_batch_{index}" for index in range(1, 6)] + ["test_batch"]:
        labels = random.integers(0, 10, 8)
        pixels = labels[:, None, None, None] * 25 + random.integers(0, 20, (8, 32, 32, 3))
        write_cifar10(folder, stem, pixels.astype(np.uint8), labels.astype(np.uint8))
    return folder


@pytest.fixture
def launch(tmp_path: Path):
    """Start a launcher in a folder of its own: ``launch(name, *words, python=...)`` returns how it ended."""

    def start(name: str, *words: object, python: object = "python") -> subprocess.CompletedProcess[str]:
        variables = {key: value for key, value in os.environ.items() if key not in ("DATA_PATH", "RANK_TABLE_FILE")}
        return subprocess.run(
            ["sh", str(ROOT / "launchers" / name), *map(str, words)],
            cwd=tmp_path,
            env=variables | {"PYTHON": str(python), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=120,
        )

    return start
