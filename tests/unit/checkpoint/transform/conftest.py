"""Folders of checkpoints and strategy files to convert."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.checkpoint.transform.perceptron import LAYOUTS, WHOLE
from tests.unit.checkpoint.transform.stored_slices import write_layouts, write_state


@pytest.fixture(scope="session")
def strategies(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path | None]:
    folder = tmp_path_factory.mktemp("strategies")
    files = {ranks: write_layouts(folder / f"{ranks}.ckpt", layouts) for ranks, layouts in LAYOUTS.items()}
    return {**files, 1: None}


@pytest.fixture
def eight(tmp_path: Path) -> Path:
    write_state(tmp_path / "eight", WHOLE, LAYOUTS[8], 8)
    return tmp_path / "eight"
