"""Where something is to be written, or read, there is a regular file or nothing, and what else is there is told."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from mpiparallel.checkpoint.files.durable_file import clear_partial, make_folder, remove_irregular, replacing, write_at
from mpiparallel.checkpoint.files.output_path import check_output
from mpiparallel.checkpoint.files.regular_file import check_folder, from_root, open_regular, read_regular
from mpiparallel.errors import CheckpointError

KINDS = {
    "link": "a link; name the file that it leads to",
    "folder": "a folder; name a file in it",
    "pipe": "a pipe",
    "socket": "a socket",
    "device": "a device",
}


def put(kind: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if kind == "link":
        path.symlink_to("nothing")
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        # The path of a socket may have 108 bytes.
        monkeypatch.chdir(path.parent)
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    elif kind == "device":
        return Path("/dev/null")
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_regular_file_is_told_by_its_kind(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(kind, tmp_path / "one", monkeypatch)
    with pytest.raises(OSError, match="it is a") as caught:
        check_output(path)
    assert (caught.value.errno, caught.value.strerror, caught.value.filename) == (
        errno.EINVAL,
        f"it is {KINDS[kind]}",
        str(path),
    )


def test_a_path_with_a_nul_is_none() -> None:
    with pytest.raises(OSError, match="it has a NUL") as caught:
        check_output(Path("a\0b"))
    assert (caught.value.errno, caught.value.filename) == (errno.EINVAL, "a\0b")
    with pytest.raises(CheckpointError, match=r"^'a\\x00b': is no path of a file \("):
        open_regular(Path("a\0b"))


def test_a_file_or_nothing_may_be_written(tmp_path: Path) -> None:
    check_output(tmp_path / "one")
    (tmp_path / "one").write_bytes(b"")
    check_output(tmp_path / "one")


@pytest.mark.parametrize("kind", KINDS)
def test_only_a_regular_file_is_opened(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(kind, tmp_path / "one", monkeypatch)
    if kind == "socket":
        with pytest.raises(OSError, match="No such device"):
            open_regular(path)
        return
    said = "is a link, which is not followed; put the file itself there"
    with pytest.raises(CheckpointError) as caught:
        open_regular(path)
    assert str(caught.value) == f"{path}: {said if kind == 'link' else 'is no regular file; put a file there'}"


def test_what_is_refused_is_not_left_open(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError):
        open_regular(tmp_path)
    opened = [one for one in Path("/proc/self/fd").iterdir() if os.path.lexists(one)]
    assert tmp_path not in [one.readlink() for one in opened]


def test_a_descriptor_is_not_passed_on_to_other_programs(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"four")
    with os.fdopen(open_regular(tmp_path / "one"), "rb") as file:
        assert not os.get_inheritable(file.fileno())
        assert file.read() == b"four"
    with replacing(tmp_path / "one") as descriptor:
        assert not os.get_inheritable(descriptor)


@pytest.mark.parametrize("length", [0, 1, 4, 5])
def test_a_file_is_read_up_to_its_longest_length(length: int, tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"x" * length)
    if length < 5:
        assert read_regular(tmp_path / "one", 4) == b"x" * length
    else:
        with pytest.raises(CheckpointError, match="has 5 bytes, more than the 4 that it may have"):
            read_regular(tmp_path / "one", 4)


@pytest.mark.parametrize(
    ("path", "whole"),
    [("/a/./b/../c", "/a/c"), ("/../a", "/a"), ("b/../../c", "{above}/c"), (".", "{here}"), ("d", "{here}/d")],
)
def test_a_path_counts_from_the_root_on(path: str, whole: str) -> None:
    here = Path.cwd()
    assert from_root(path) == Path(whole.format(here=here, above=here.parent))


def test_a_folder_is_one_itself(tmp_path: Path) -> None:
    check_folder(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    for name in ("link", "file"):
        with pytest.raises(CheckpointError) as caught:
            check_folder(tmp_path / name)
        assert str(caught.value) == (
            f"{tmp_path}/{name}: is a link or no folder; links are not followed: put the folder itself there"
        )
    for path in (tmp_path / "none", Path("a\0b")):
        with pytest.raises(CheckpointError, match=r": cannot be read as a folder \("):
            check_folder(path)


def test_folders_that_are_missing_are_made_and_those_that_are_there_stay(tmp_path: Path) -> None:
    for _ in range(2):
        make_folder(tmp_path / "a" / "b" / "c")
        (tmp_path / "a" / "b" / "file").write_bytes(b"kept")
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["a", "a/b", "a/b/c", "a/b/file"]


@pytest.mark.parametrize(("kind", "stays"), [("link", False), ("pipe", False), ("folder", True), ("file", True)])
def test_a_link_or_pipe_at_the_place_of_a_file_goes(
    kind: str, stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "one"
    remove_irregular(path)
    if kind == "file":
        path.write_bytes(b"kept")
    else:
        put(kind, path, monkeypatch)
    remove_irregular(path)
    assert os.path.lexists(path) == stays


def test_of_a_folder_what_killed_writers_have_left_goes_and_nothing_else(tmp_path: Path) -> None:
    names = [".partial-1", ".partial-", ".partialx", "partial-1", "x.partial-1", "manifest.json"]
    for name in names:
        (tmp_path / name).write_bytes(b"")
    clear_partial(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[2:])


def test_bytes_are_written_at_their_place_however_few_the_disk_takes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, content, offset: write(descriptor, content[:3], offset))
    with replacing(tmp_path / "one") as descriptor:
        write_at(descriptor, memoryview(b"0123456789"), 4)
        write_at(descriptor, memoryview(b""), 99)
    assert (tmp_path / "one").read_bytes() == bytes(4) + b"0123456789"


def test_a_file_may_be_made_for_its_owner_alone(tmp_path: Path) -> None:
    with replacing(tmp_path / "one", 0o600):
        pass
    assert (tmp_path / "one").stat().st_mode & 0o777 == 0o600
