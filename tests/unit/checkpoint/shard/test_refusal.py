"""What cannot be written is refused, and then nothing is left behind."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.files.array_file import infos_of, read_array
from mpiparallel.checkpoint.shard.reader import open_shard
from mpiparallel.checkpoint.shard.writer import write_shard
from mpiparallel.errors import CheckpointError
from tests.conformance import patience
from tests.reliability.files.failing_disks import small_disk


def write(path: Path, arrays: dict[str, NDArray[Any]], **attributes: Any) -> None:
    write_shard(path, infos_of(arrays), arrays.items(), attributes)


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", "\x1b[31m", "\ud800", "x" * 1025, "x" * 4096, "é" * 513, 7, None])
def test_a_name_that_cannot_be_stored_is_refused(tmp_path: Path, name: Any) -> None:
    with pytest.raises(CheckpointError, match=r"one\.h5: .*cannot name an array; use a text of at most 1024 bytes"):
        write(tmp_path / "one.h5", {name: np.arange(3)})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", ["O", "U3", "S3", "M8[s]", ">f4", "g", "G", "V4", [("a", "f4")]])
def test_a_dtype_that_cannot_be_stored_is_refused(tmp_path: Path, dtype: Any) -> None:
    with pytest.raises(CheckpointError, match=r'one\.h5: array "w" has dtype'):
        write(tmp_path / "one.h5", {"w": np.zeros(2, dtype)})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("shape", [(1,) * 33, (2**40, 2**40), (-1,), (0, 2**70)])
def test_a_shape_that_cannot_be_stored_is_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    with pytest.raises(CheckpointError, match=r'one\.h5: array "w" has shape'):
        write_shard(tmp_path / "one.h5", {"w": TensorSpec(shape, np.dtype("f4"))}, (), {})
    assert not list(tmp_path.iterdir())


def test_more_than_any_file_holds_is_refused(tmp_path: Path) -> None:
    infos = {f"w{index}": TensorSpec((2**59,), np.dtype("f4")) for index in range(8)}
    with pytest.raises(CheckpointError, match=r"one\.h5: cannot be laid out"):
        write_shard(tmp_path / "one.h5", infos, (), {})


def test_an_index_longer_than_is_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"one\.h5: cannot be laid out .*too many for one file"):
        write(tmp_path / "one.h5", {}, text="x" * 2**25)
    with pytest.raises(CheckpointError, match="too many for one file"):
        write(tmp_path / "one.h5", {}, text="," * 2**20)


@pytest.mark.parametrize("value", [None, True, 2**63, b"x", [1], 1j])
def test_an_attribute_that_cannot_be_stored_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(CheckpointError, match=r"one\.h5: attribute 'step' is"):
        write(tmp_path / "one.h5", {}, step=value)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([], 'array "v" does not come'),
        ([("v", np.zeros(3))], 'array "w" does not come'),
        ([("w", np.zeros(3)), ("v", np.zeros(3))], 'array "w" of shape .* where "v" is due'),
        ([("v", np.zeros(3)), ("w", np.zeros(3)), ("u", np.zeros(3))], 'array "u" of shape'),
        ([("v", np.zeros(3)), ("w", np.zeros((3, 1)))], r'array "w" of shape \(3, 1\)'),
        ([("v", np.zeros(3)), ("w", np.zeros(3, np.float32))], 'array "w" of shape .* float32'),
    ],
)
def test_arrays_other_than_announced_are_refused(tmp_path: Path, arrays: Any, message: str) -> None:
    infos = {name: TensorSpec((3,), np.dtype("f8")) for name in "vw"}
    with pytest.raises(CheckpointError, match=message):
        write_shard(tmp_path / "one.h5", infos, arrays, {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("failure", [ZeroDivisionError, KeyboardInterrupt])
def test_a_failure_of_the_source_passes_through(tmp_path: Path, failure: type[BaseException]) -> None:
    def failing() -> Iterator[tuple[str, NDArray[Any]]]:
        yield "v", np.zeros(3)
        raise failure

    with pytest.raises(failure):
        write_shard(tmp_path / "one.h5", {name: TensorSpec((3,), np.dtype("f8")) for name in "vw"}, failing(), {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["missing/one.h5", "a\0b.h5", "x" * 300 + "/one.h5"])
def test_a_path_that_cannot_be_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(CheckpointError, match=r"cannot (be written|name a file)"):
        write(tmp_path / path, {"w": np.zeros(3)})


@pytest.mark.parametrize("call", ["pwrite", "fsync", "replace"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fails_at_any_call_leaves_the_old_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    path, arrays = tmp_path / "shard.h5", {"w": np.arange(2**18), "v": np.arange(5), "u": np.arange(3.0)}
    write(path, {"old": np.arange(8)})
    real, calls, fails_at = getattr(os, call), 0, 0

    def failing(*arguments: Any, **keywords: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == fails_at:
            raise OSError(code, os.strerror(code))
        return real(*arguments, **keywords)

    monkeypatch.setattr(os, call, failing)
    write(tmp_path / "whole.h5", arrays)
    (tmp_path / "whole.h5").unlink()
    for fails_at in range(1, calls + 1):
        calls = 0
        # A folder that cannot be synced may hold either shard.
        committed = call == "fsync" and fails_at == 2
        with pytest.raises(CheckpointError, match=rf"{path}: cannot be written .*it needs \d{{7}} bytes"):
            write(path, arrays)
        assert [file.name for file in tmp_path.iterdir()] == ["shard.h5"]
        with open_shard(path) as shard:
            shard.verify()
            assert list(shard.arrays) == (["w", "v", "u"] if committed else ["old"])


def test_short_writes_and_reads_are_carried_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_write: Callable[..., int] = os.pwrite
    real_read: Callable[..., int] = os.preadv
    monkeypatch.setattr(os, "pwrite", lambda file, content, offset: real_write(file, content[:99_991], offset))
    monkeypatch.setattr(os, "preadv", lambda file, buffers, offset: real_read(file, [buffers[0][:9_973]], offset))
    array = np.arange(300_000)
    write(tmp_path / "one.h5", {"w": array, "v": array[:7]})
    with open_shard(tmp_path / "one.h5") as shard:
        np.testing.assert_array_equal(read_array(shard, "w"), array)
        np.testing.assert_array_equal(read_array(shard, "v"), array[:7])


def test_a_disk_that_cannot_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "one.h5", {"w": np.arange(9)})

    def failing(*_: Any) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with open_shard(tmp_path / "one.h5") as shard:
        monkeypatch.setattr(os, "preadv", failing)
        with pytest.raises(CheckpointError, match=r'one\.h5: array "w": cannot be read .*Input/output error'):
            shard.verify()
        with pytest.raises(CheckpointError, match=r"one\.h5: footer: cannot be read"):
            open_shard(tmp_path / "one.h5")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "small", 3 << 20) as folder:
        yield folder


@pytest.mark.parametrize("size", [2**20, 2**22, 2**26])
def test_full_disk_is_an_error_that_leaves_the_old_shard(disk: Path, size: int) -> None:
    path = disk / "shard.h5"
    write(path, {"w": np.arange(8)})
    (disk / "other").write_bytes(bytes(2 * 2**20 + 2**19))
    with pytest.raises(CheckpointError, match=rf"{path}: cannot be written .*No space left.*needs \d{{7,8}} bytes"):
        write(path, {f"w{index}": np.ones(size // 16, np.uint8) for index in range(16)})
    assert sorted(file.name for file in disk.iterdir()) == ["other", "shard.h5"]
    with open_shard(path) as shard:
        assert read_array(shard, "w").tolist() == list(range(8))


def test_completely_full_disk_is_an_error(disk: Path) -> None:
    with suppress(OSError):
        (disk / "other").write_bytes(bytes(2**22))
    with pytest.raises(CheckpointError, match="No space left"):
        write(disk / "shard.h5", {"w": np.arange(8)})
    assert [file.name for file in disk.iterdir()] == ["other"]


LIMITED = """
import resource, sys
import numpy as np
from mpiparallel.checkpoint.files.array_file import infos_of
from mpiparallel.checkpoint.shard.writer import write_shard
from mpiparallel.errors import CheckpointError
arrays = {"w": np.ones(10**6), "v": np.ones(10**6), "u": np.ones(3)}
for limit in map(int, sys.argv[2:]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        write_shard(sys.argv[1], infos_of(arrays), arrays.items(), {})
    except CheckpointError as error:
        print(error)
"""


def test_file_size_limit_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "shard.h5"
    limits = ["0", "100", "1000000", "9000000", "16003000"]
    child = patience.run([sys.executable, "-c", LIMITED, path, *limits], capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
    lines = child.stdout.splitlines()
    assert len(lines) == len(limits)
    assert all(line.startswith(f"{path}: cannot be written ([Errno 27] File too large") for line in lines)
    assert not list(tmp_path.iterdir())
