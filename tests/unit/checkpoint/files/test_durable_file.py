from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from mpiparallel.checkpoint.files.array_file import infos_of
from mpiparallel.checkpoint.files.durable_file import replacing, write_durably
from mpiparallel.checkpoint.files.regular_file import read_regular
from mpiparallel.checkpoint.formats.registry import FORMATS, write_file
from mpiparallel.checkpoint.strategy.group_file import write_group_info
from mpiparallel.checkpoint.strategy.strategy_file import write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import StrategyRecord
from mpiparallel.errors import CheckpointError
from tests.conformance.trainings.saved_checkpoint import save

ARRAYS = {"w": np.zeros(3)}


def write_arrays(path: Path) -> None:
    write_file(path, infos_of(ARRAYS), ARRAYS.items(), {})


WRITERS: Mapping[str, Callable[[Path], object]] = {
    "manifest.json": lambda path: write_durably(path, b"new"),
    **{f"one{format_.suffix}": write_arrays for format_ in FORMATS.values()},
    "strategy.json": lambda path: write_strategy(path, StrategyRecord.of({}, {})),
    "group_info.pb": lambda path: write_group_info(path, [], [0]),
}


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    before = os.umask(0)
    yield os.umask
    os.umask(before)


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


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077, 0o000])
def test_others_may_read_what_the_umask_lets_them_read(mask: int, umask: Callable[[int], int], tmp_path: Path) -> None:
    umask(mask)
    for name, write in WRITERS.items():
        path = tmp_path / name
        path.touch(0o600)
        write(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask, name
    save(tmp_path / "saved")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "saved").rglob("*") if path.is_file()}
    assert modes == {0o666 & ~mask}


def test_writing_never_changes_the_umask_of_other_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def set_umask(mask: int) -> int:
        raise AssertionError("the umask is that of all threads")

    monkeypatch.setattr(os, "umask", set_umask)
    threads = [Thread(target=write_durably, args=(tmp_path / str(number), b"new")) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(tmp_path.iterdir())) == len(threads)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("kind", ["link", "link to nothing", "pipe", "socket", "folder", "device", "NUL"])
def test_only_a_regular_file_is_replaced(
    kind: str, writer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The path of a socket may have 108 bytes.
    monkeypatch.chdir(tmp_path)
    Path("kept").write_text("kept")
    path = Path(f"a\0{writer}" if kind == "NUL" else writer)
    match kind:
        case "link":
            path.symlink_to("kept")
        case "link to nothing":
            path.symlink_to("none")
        case "pipe":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(writer)
        case "folder":
            path.mkdir()
        case "device":
            if os.geteuid():
                pytest.skip("only root makes devices")
            os.mknod(path, 0o020666, os.makedev(1, 3))
    before = {path.name: path.lstat() for path in Path().iterdir()}
    with pytest.raises((OSError, RuntimeError, ValueError)):
        WRITERS[writer](path)
    after = {path.name: path.lstat() for path in Path().iterdir()}
    assert {name: (status.st_ino, status.st_mode) for name, status in before.items()} == {
        name: (status.st_ino, status.st_mode) for name, status in after.items()
    }
    assert Path("kept").read_text() == "kept"


def test_a_disk_that_takes_nothing_is_told_of_and_the_old_content_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "manifest.json"
    write_durably(path, b"old")
    monkeypatch.setattr(os, "pwrite", lambda descriptor, content, offset: 0)
    with pytest.raises(OSError, match="nothing of 5 bytes was written") as caught:
        write_durably(path, b"newer")
    assert caught.value.errno == errno.EIO
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["manifest.json"]


def test_a_file_longer_than_it_may_be_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_bytes(b"four")
    assert read_regular(path, 4) == b"four"
    with pytest.raises(CheckpointError, match=r"manifest.json: has 4 bytes, more than the 3 that it may have"):
        read_regular(path, 3)
