"""While a script is simulated it changes no file: each way of changing one is refused, and reading is not."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mpiparallel.launch.simulate.read_only_disk import read_only_disk

CHANGES: dict[str, Callable[[Path], object]] = {
    "write": lambda path: path.open("w"),
    "append": lambda path: path.open("a"),
    "read and write": lambda path: path.open("r+"),
    "create": lambda path: os.open(path.with_name("new"), os.O_CREAT | os.O_RDONLY),
    "truncate while it is opened": lambda path: os.open(path, os.O_TRUNC | os.O_RDONLY),
    "write bytes by name": lambda path: open(os.fsencode(path), "wb"),  # noqa: SIM115, PTH123
    "mkdir": lambda path: path.with_name("folder").mkdir(),
    "rename": lambda path: path.rename(path.with_name("other")),
    "replace": lambda path: path.replace(path.with_name("other")),
    "remove": lambda path: path.unlink(),
    "rmdir": lambda path: path.parent.rmdir(),
    "link": lambda path: path.with_name("link").hardlink_to(path),
    "symlink": lambda path: path.with_name("link").symlink_to(path),
    "truncate": lambda path: os.truncate(path, 1),
    "chmod": lambda path: path.chmod(0o600),
    "chown": lambda path: os.chown(path, os.getuid(), os.getgid()),
}


@pytest.mark.parametrize("way", CHANGES)
def test_a_change_of_a_file_is_refused_as_by_a_disk_that_can_only_be_read(way: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("kept")
    before = path.stat()
    with read_only_disk(), pytest.raises(OSError, match="a simulation writes no file") as refused:
        CHANGES[way](path)
    assert (refused.value.errno, os.fsdecode(refused.value.filename).startswith(str(tmp_path))) == (errno.EROFS, True)
    assert ([one.name for one in tmp_path.iterdir()], path.read_text()) == (["file"], "kept")
    after = path.stat()
    assert (after.st_mode, after.st_mtime_ns, after.st_ctime_ns) == (
        before.st_mode,
        before.st_mtime_ns,
        before.st_ctime_ns,
    )


def test_files_are_read_and_devices_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("words")
    with read_only_disk():
        assert (tmp_path / "file").read_text() == "words"
        assert list(tmp_path.iterdir()) == [tmp_path / "file"]
        with Path(os.devnull).open("w") as nothing:
            nothing.write("words")
        reader, writer = os.pipe()
        with os.fdopen(writer, "w") as pipe:
            pipe.write("words")
    os.close(reader)


def test_afterwards_files_are_written_as_before_also_within_another_such_time(tmp_path: Path) -> None:
    before = sys.dont_write_bytecode
    with read_only_disk():
        assert sys.dont_write_bytecode
        with read_only_disk():
            pass
        with pytest.raises(OSError, match="a simulation writes no file"):
            (tmp_path / "file").write_text("words")
    assert sys.dont_write_bytecode == before
    (tmp_path / "file").write_text("words")
    with pytest.raises(KeyError), read_only_disk():
        raise KeyError
    (tmp_path / "file").write_text("more")
    assert (tmp_path / "file").read_text() == "more"
