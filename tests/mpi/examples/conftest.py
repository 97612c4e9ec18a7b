from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conformance import patience
from tests.conformance.made_up_data import write_images

ROOT = Path(__file__).parents[3]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A folder of images whose brightness is their label."""
    return write_images(tmp_path / "cifar-10-batches-bin")


@pytest.fixture
def launch(tmp_path: Path):
    """Start a launcher in a folder of its own: ``launch(name, *words, python=...)`` returns how it ended."""

    def start(name: str, *words: object, python: object = "python") -> subprocess.CompletedProcess[str]:
        variables = {key: value for key, value in os.environ.items() if key not in ("DATA_PATH", "RANK_TABLE_FILE")}
        return patience.run(
            ["sh", str(ROOT / "launchers" / name), *map(str, words)],
            cwd=tmp_path,
            env=variables | {"PYTHON": str(python), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )

    return start
