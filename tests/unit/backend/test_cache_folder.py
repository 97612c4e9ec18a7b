"""What is kept for other processes: whole, or not at all, and who asked is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mpiparallel.backend.cache_folder import cache_folder, keep


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


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"NUMBA_CACHE_DIR": "/n", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/n/mpiparallel"),
        ({"NUMBA_CACHE_DIR": "", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/mpiparallel"),
        ({"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/mpiparallel"),
        ({"HOME": "/h"}, "/h/.cache/mpiparallel"),
        ({}, "/nonexistent/.cache/mpiparallel"),
    ],
)
def test_the_folder_is_the_one_that_is_named_or_that_of_the_user(variables: dict[str, str], folder: str) -> None:
    assert str(cache_folder(variables)) == folder


def test_a_file_that_is_there_already_is_replaced_as_a_whole(tmp_path: Path) -> None:
    kept = tmp_path / "loops.bin"
    assert keep(kept, b"old content")
    before = kept.stat().st_ino
    assert keep(kept, b"new")
    assert kept.read_bytes() == b"new"
    # Who reads the old one goes on with it.
    assert kept.stat().st_ino != before
    assert [path.name for path in tmp_path.iterdir()] == ["loops.bin"]


def test_a_folder_of_any_user_is_taken_by_that_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    if os.getuid() == 0:
        # As a user with a number as they have it.
        os.chown(folder, 70000, -1)
        monkeypatch.setattr(os, "getuid", lambda: int("70000"))
    assert keep(folder / "loops.bin", b"content")
