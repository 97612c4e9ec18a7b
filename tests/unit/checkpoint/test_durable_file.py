from __future__ import annotations

from pathlib import Path

import pytest

from mpiparallel.checkpoint.durable_file import replacing, write_durably


def test_new_content_takes_the_place_of_the_old(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    write_durably(path, b"old")
    write_durably(path, b"new")
    assert path.read_bytes() == b"new"
    assert [file.name for file in tmp_path.iterdir()] == ["manifest.json"]


def test_failure_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    write_durably(path, b"old")
    with pytest.raises(KeyboardInterrupt), replacing(path):
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["manifest.json"]
