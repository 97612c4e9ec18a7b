"""Texts that users name: regular files of UTF-8 up to 8 MiB, and nothing else."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from mpiparallel.cluster.text_file import read_text
from mpiparallel.errors import RankTableError

MIB = 1 << 20


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"", ""), (b"a\r\n", "a\r\n"), ("\ufeffn\u00f6de".encode(), "n\u00f6de"), (b"x" * 8 * MIB, "x" * 8 * MIB)],
    ids=["empty", "lines", "marked", "8 MiB"],
)
def test_a_text_is_read_as_it_is_but_for_a_mark_of_its_encoding(content: bytes, text: str, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_bytes(content)
    assert read_text(tmp_path / "hosts", "hostfile") == text
    assert read_text(str(tmp_path / "hosts"), "hostfile") == text


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("absent", "No such file or directory"),
        ("folder", "Is a directory"),
        ("pipe", "it is no regular file"),
        ("huge", "it has more than 8 MiB"),
        ("binary", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ],
)
def test_what_is_no_such_text_is_refused_with_the_reason(kind: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind != "absent":
        path.write_bytes(b"x" * (8 * MIB + 1) if kind == "huge" else b"\xff")
    with pytest.raises(
        RankTableError, match=f"^{re.escape(f'{path}: cannot be read ({why}); give the path of a list')}$"
    ):
        read_text(path, "list")
