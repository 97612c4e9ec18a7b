"""What is written is what was announced, under names that can be read again, and a disk is told what it needs."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpiparallel.checkpoint.files import durable_file
from mpiparallel.checkpoint.files.array_file import infos_of, read_array
from mpiparallel.checkpoint.formats.registry import FORMATS, open_file, write_file
from mpiparallel.errors import CheckpointError

ANNOUNCED = {"a": np.zeros((3, 4)), "b": np.zeros(5, np.float16), "c": np.array(True)}
formats = pytest.mark.parametrize("suffix", [format_.suffix for format_ in FORMATS.values()])
not_own = pytest.mark.parametrize("suffix", [".ckpt", ".safetensors", ".npz"])
ORDER = "write the arrays in the order of their infos"


def write(path: Path, arrays: dict[str, NDArray[Any]], attributes: dict[str, Any] | None = None) -> None:
    write_file(path, infos_of(arrays), arrays.items(), attributes or {})


def names_in(path: Path) -> list[str]:
    with open_file(path) as file:
        return list(file.arrays)


@not_own
@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("acb", f'array "c", bool (), came where "b", float16 (5,) was announced; {ORDER}'),
        ("abcd", f'array "d", int64 (2,), came where the end was announced; {ORDER}'),
        ("ab", 'array "c" and 0 more were announced, but never came'),
        ("", 'array "a" and 2 more were announced, but never came'),
    ],
)
def test_an_array_that_was_not_announced_is_told_with_what_was(
    suffix: str, names: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / f"one{suffix}"
    arrays = {**ANNOUNCED, "d": np.arange(2)}
    with pytest.raises(CheckpointError) as caught:
        write_file(path, infos_of(ANNOUNCED), [(name, arrays[name]) for name in names], {})
    assert str(caught.value) == f"{path}: {said}"
    assert not path.exists()


@not_own
@pytest.mark.parametrize("letter", ["a", "é", "文", "😀"])
def test_a_name_has_at_most_4096_characters_whatever_their_bytes(suffix: str, letter: str, tmp_path: Path) -> None:
    path = tmp_path / f"one{suffix}"
    write(path, {4096 * letter: np.zeros(1)})
    assert names_in(path) == [4096 * letter]
    path.unlink()
    with pytest.raises(CheckpointError) as caught:
        write(path, {4097 * letter: np.zeros(1)})
    assert str(caught.value) == (
        f"{path}: '{79 * letter} cannot name an array; use a name of 1 to 4096 characters, none of them a control "
        "character"
    )
    assert not path.exists()


@formats
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 4)])
def test_an_array_without_elements_keeps_its_shape(suffix: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / f"one{suffix}"
    write(path, {"before": np.arange(3), "none": np.zeros(shape, np.bool_), "after": np.arange(2)})
    with open_file(path) as file:
        assert file.arrays["none"].shape == shape
        assert read_array(file, "none").shape == shape
        np.testing.assert_array_equal(read_array(file, "after"), [0, 1])


@formats
def test_equal_arrays_make_equal_files(suffix: str, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for path in paths:
        write(path, ANNOUNCED, {"step": 7})
    assert paths[0].read_bytes() == paths[1].read_bytes()


@not_own
def test_a_full_disk_is_told_about_as_many_bytes_as_the_file_needs(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"one{suffix}"
    state = {f"{number:0200}": np.zeros((30, 2)) for number in range(40)}
    write(path, state)
    length = path.stat().st_size

    def fill_up(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(durable_file.os, "fsync", fill_up)
    with pytest.raises(CheckpointError) as caught:
        write(path, state)
    said = re.fullmatch(
        rf"{path}: cannot be written \(\[Errno 28\] No space left on device\); it needs (\d+) bytes in a writable "
        "folder: free some, or choose another folder",
        str(caught.value),
    )
    assert said is not None
    assert length * 0.99 < int(said[1]) < length * 1.2


@formats
def test_a_file_that_is_refused_is_not_left_open(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"one{suffix}"
    write(path, ANNOUNCED)
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(CheckpointError):
        open_file(path)
    opened = Path("/proc/self/fd")
    assert path not in [one.readlink() for one in opened.iterdir() if os.path.lexists(one)]


@formats
@pytest.mark.parametrize(
    ("first", "count", "said"),
    [(10, 3, "12 elements"), (12, 1, "12 elements"), (13, 0, "12 elements"), (-1, 1, "12 elements")],
)
def test_elements_beyond_an_array_are_refused(suffix: str, first: int, count: int, said: str, tmp_path: Path) -> None:
    path = tmp_path / f"one{suffix}"
    write(path, {"v": np.ones(20), "w": np.arange(12.0), "x": np.ones(20)})
    with open_file(path) as file, pytest.raises(CheckpointError, match=f"{path}: .*{said}.* {count} .*from {first} on"):
        file.fill("w", first, np.empty(count))


@formats
@pytest.mark.parametrize(("first", "count"), [(0, 12), (9, 3), (11, 1), (12, 0), (0, 0)])
def test_elements_up_to_the_last_are_read(suffix: str, first: int, count: int, tmp_path: Path) -> None:
    path = tmp_path / f"one{suffix}"
    write(path, {"v": np.ones(20), "w": np.arange(12.0), "x": np.ones(20)})
    target = np.full(count, -1.0)
    with open_file(path) as file:
        file.fill("w", first, target)
    np.testing.assert_array_equal(target, np.arange(12.0)[first : first + count])


@not_own
@pytest.mark.parametrize(
    ("target", "said"),
    [
        (np.empty((2, 2)), "a 2-D float64"),
        (np.empty(4)[::2], "a 1-D float64"),
        (np.empty(1, np.float32), "a 1-D float32"),
        (np.empty(()), "a 0-D float64"),
    ],
)
def test_a_target_that_cannot_be_filled_is_told_by_its_kind(
    suffix: str, target: NDArray[Any], said: str, tmp_path: Path
) -> None:
    path = tmp_path / f"one{suffix}"
    write(path, {"w": np.arange(12.0)})
    with open_file(path) as file, pytest.raises(CheckpointError) as caught:
        file.fill("w", 0, target)
    assert str(caught.value) == (
        f'{path}: array "w" has dtype float64, which cannot fill {said}; give a contiguous 1-D array'
    )


@formats
def test_many_arrays_come_back_by_their_names(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"one{suffix}"
    arrays = {f"w{number}": np.arange(number % 7) + number for number in range(1, 400)}
    write(path, {name: array for name, array in arrays.items() if array.size})
    with open_file(path) as file:
        assert len(file.arrays) == 342
        for name in file.arrays:
            np.testing.assert_array_equal(read_array(file, name), arrays[name], strict=True)


@formats
@pytest.mark.parametrize("few", [1, 7, 1000])
def test_a_disk_that_gives_few_bytes_at_once_is_asked_again(
    suffix: str, few: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"one{suffix}"
    arrays = {"w": np.arange(200.0).reshape(20, 10), "flag": np.array(True)}
    write(path, arrays)
    read = os.preadv
    monkeypatch.setattr(os, "preadv", lambda file, buffers, offset: read(file, [buffers[0][:few]], offset))
    with open_file(path) as file:
        for name, array in arrays.items():
            np.testing.assert_array_equal(read_array(file, name), array, strict=True)


@formats
def test_a_file_that_is_closed_twice_closes_no_other(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"one{suffix}"
    write(path, ANNOUNCED)
    file = open_file(path)
    file.close()
    # It may have the number that the file had.
    other = os.open(path, os.O_RDONLY)
    standard = os.fstat(0)
    try:
        file.close()
        assert os.fstat(other).st_ino == path.stat().st_ino
        assert os.fstat(0) == standard
        with pytest.raises((CheckpointError, OSError)):
            read_array(file, "a")
    finally:
        os.close(other)
