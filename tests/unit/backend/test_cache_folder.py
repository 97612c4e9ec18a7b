"""What is kept for other processes: whole, or not at all, and who asked is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mpiparallel.backend.cache_folder import keep


def test_a_file_is_kept_in_a_folder_that_is_made_for_the_user_alone(tmp_path: Path) -> None:
    kept = tmp_path / "new" / "cache" / "loops.bin"
    assert keep(kept, b"content")
    assert kept.read_bytes() == b"content"
    assert kept.parent.stat().st_mode & 0o077 == 0


def test_what_cannot_be_kept_leaves_nothing_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    assert not keep(tmp_path / "file" / "loops.bin", b"content")
    (tmp_path / "folder").mkdir()
    assert not keep(tmp_path / "folder", b"content")
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    assert not keep(tmp_path / "loops.bin", b"content")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
