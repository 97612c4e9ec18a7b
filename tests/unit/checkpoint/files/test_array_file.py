"""Arrays in files are asked for by name, and the digests of a committed file are those of all its bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from numpy.typing import NDArray

from mpiparallel.checkpoint.files.array_file import infos_of, read_array, read_box
from mpiparallel.checkpoint.files.digested_file import DigestedFile, open_committed, write_committed
from mpiparallel.checkpoint.files.meter import Meter
from mpiparallel.checkpoint.formats.registry import open_file, write_file
from mpiparallel.checkpoint.shard.reader import ShardFile
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.box import Box

MEND = "restore the file, or run mpiparallel ckpt recover"


def written(path: Path, arrays: dict[str, NDArray[Any]], **attributes: Any) -> Any:
    return write_committed(path, infos_of(arrays), arrays.items(), attributes)


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (0, "none"),
        (1, "w0"),
        (8, "w0, w1, w2, w3, w4, w5, w6, w7"),
        (9, "w0, w1, w2, w3, w4, w5, w6, w7 and 1 more"),
    ],
)
def test_a_file_that_lacks_an_array_tells_which_it_has(count: int, told: str, tmp_path: Path) -> None:
    arrays = {f"w{index}": np.zeros(1) for index in reversed(range(count))}
    write_file(tmp_path / "one.npz", infos_of(arrays), arrays.items(), {})
    with open_file(tmp_path / "one.npz") as file, pytest.raises(CheckpointError) as caught:
        read_array(file, "v")
    assert str(caught.value) == f'{tmp_path}/one.npz: has no array "v"; it has {told}'


def test_arrays_of_one_shape_and_dtype_are_described_alike() -> None:
    infos = infos_of({"a": np.zeros(3), "b": np.ones(3), "c": np.zeros((3, 1)), "d": np.zeros(3, np.float32)})
    assert [(info.shape, str(info.dtype)) for info in infos.values()] == [
        ((3,), "float64"),
        ((3,), "float64"),
        ((3, 1), "float64"),
        ((3,), "float32"),
    ]


@pytest.mark.parametrize("box", [Box((1, 0, 2), (3, 4, 5)), Box((0, 1, 0), (4, 2, 5)), Box((3, 3, 4), (4, 4, 5))])
def test_a_box_of_a_file_is_what_numpy_cuts(box: Box, tmp_path: Path) -> None:
    array = np.arange(80.0).reshape(4, 4, 5)
    written(tmp_path / "one.safetensors", {"before": np.ones(7), "w": array})
    with open_file(tmp_path / "one.safetensors") as file:
        found = read_box(file, "w", box)
    np.testing.assert_array_equal(found, array[tuple(map(slice, box.start, box.stop))], strict=True)


@pytest.mark.parametrize("suffix", [".safetensors", ".ckpt"])
def test_digests_of_another_format_are_those_of_its_bytes_and_of_blocks_of_a_mebibyte(
    suffix: str, tmp_path: Path
) -> None:
    arrays = {
        "large": np.arange(700_001, dtype=np.float64),
        "exact": np.arange(1 << 18, dtype=np.int32),
        "columns": np.arange(6.0).reshape(2, 3).T,
        "few": np.array([True, False]),
        "scalar": np.array(7),
    }
    path = tmp_path / f"one{suffix}"
    shard = written(path, arrays)
    content = path.read_bytes()
    assert (shard.size, shard.digest) == (len(content), xxhash.xxh3_128_hexdigest(content))
    expected = {}
    for name, array in arrays.items():
        stored = array.tobytes()
        blocks = [xxhash.xxh3_64_digest(stored[start : start + 2**20]) for start in range(0, len(stored), 2**20)]
        expected[name] = xxhash.xxh3_64_hexdigest(b"".join(blocks))
    assert shard.arrays == expected
    with open_committed(path, shard.digest) as file:
        assert isinstance(file, DigestedFile)
        assert (file.digest, dict(file.digests)) == (shard.digest, expected)
        for name, array in arrays.items():
            np.testing.assert_array_equal(read_array(file, name), array)


@pytest.mark.parametrize(("suffix", "told"), [(".safetensors", {"step": "7"}), (".ckpt", {}), (".h5", {"step": 7})])
def test_a_committed_file_tells_of_itself_where_no_array_is_made_of_it(
    suffix: str, told: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / f"one{suffix}"
    shard = written(path, {"w": np.zeros(1)}, step=7)
    with open_committed(path, shard.digest) as file:
        assert isinstance(file, ShardFile) == (suffix == ".h5")
        assert (list(file.arrays), dict(file.attributes)) == (["w"], told)


@pytest.mark.parametrize("suffix", [".safetensors", ".ckpt"])
def test_a_file_of_another_digest_is_refused_with_both(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"one{suffix}"
    digest = written(path, {"w": np.zeros(1)}).digest
    with pytest.raises(CheckpointError) as caught:
        open_committed(path, "0" * 32)
    assert str(caught.value) == (
        f"{path}: has digest {digest}, expected {'0' * 32}: it is damaged, or of another rank or step; {MEND}"
    )
    path.unlink()
    with pytest.raises(CheckpointError) as caught:
        open_committed(path, digest)
    assert str(caught.value) == f"{path}: cannot be read (No such file or directory); {MEND}"


@pytest.mark.parametrize(
    ("total", "counts", "told"),
    [(10, [4, 4, 4], [4, 8, 10]), (0, [3], [0]), (5, [0, 5, 0], [0, 5, 5])],
)
def test_what_is_done_is_never_more_than_all(total: int, counts: list[int], told: list[int]) -> None:
    found: list[tuple[int, int]] = []
    meter, silent = Meter(total, lambda *both: found.append(both)), Meter(total)
    for count in counts:
        meter.add(count)
        silent.add(count)
    assert found == [(done, total) for done in told]
