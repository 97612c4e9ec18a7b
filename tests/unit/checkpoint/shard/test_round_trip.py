from __future__ import annotations

import tracemalloc
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from numpy.typing import NDArray

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.files.array_file import infos_of, read_array
from mpiparallel.checkpoint.shard.reader import ShardFile, open_shard
from mpiparallel.checkpoint.shard.writer import WrittenShard, write_shard
from mpiparallel.dtype import bfloat16
from mpiparallel.errors import CheckpointError

DTYPES = [np.dtype(char) for char in "?bhilqBHILQefdFD"]
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6).filter(str.isprintable)
shapes = arrays_of.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
any_array = st.sampled_from(DTYPES).flatmap(lambda dtype: arrays_of.arrays(dtype, shapes))


def written(path: Path, arrays: Mapping[str, NDArray[Any]], **attributes: Any) -> WrittenShard:
    return write_shard(path, infos_of(arrays), arrays.items(), attributes)


def seen_by_h5py(shard: ShardFile) -> dict[str, NDArray[Any]]:
    with h5py.File(shard.path) as file:
        assert all(isinstance(dataset, h5py.Dataset) and dataset.chunks is None for dataset in file.values())
        seen = {}
        for name, info in shard.arrays.items():
            place = shard.place(name)
            seen[name] = file[place.dataset][()].reshape(-1)[place.first :][: info.size].reshape(info.shape)
        return seen


def assert_same(arrays: Mapping[str, NDArray[Any]], path: Path, digest: str) -> None:
    with open_shard(path, digest) as shard:
        shard.verify()
        seen = seen_by_h5py(shard)
        assert list(shard.arrays) == list(arrays)
        for name, array in arrays.items():
            for found in (read_array(shard, name), seen[name]):
                assert (found.shape, found.dtype, found.tobytes()) == (array.shape, array.dtype, array.tobytes())


@settings(max_examples=60)
@given(arrays=st.dictionaries(names, any_array, max_size=5))
def test_what_is_written_is_read_and_h5py_reads_the_same(
    tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, NDArray[Any]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.h5"
    shard = written(path, arrays)
    assert_same(arrays, path, shard.digest)
    assert path.stat().st_size == shard.size


def test_bfloat16_keeps_its_bits_and_is_a_float_of_16_bits_to_hdf5(tmp_path: Path) -> None:
    exact = np.random.default_rng(0).normal(size=300_000).astype(np.float32)
    arrays = {"large": exact.astype(bfloat16), "few": exact[:5].astype(bfloat16), "scalar": exact[0].astype(bfloat16)}
    shard = written(tmp_path / "narrow.h5", arrays)
    with open_shard(tmp_path / "narrow.h5", shard.digest) as file:
        file.verify()
        for name, array in arrays.items():
            found = read_array(file, name)
            assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())
            np.testing.assert_array_equal(seen_by_h5py(file)[name], array.astype(np.float32))


def large_arrays() -> dict[str, NDArray[Any]]:
    generator = np.random.default_rng(1)
    whole = generator.standard_normal((1500, 700)).astype(np.float32)
    arrays = {"transposed": whole.T, "strided": whole[::3, 1::2], "small": whole[:2, 0], "backwards": whole[::-1, ::-1]}
    arrays |= {"row": whole.reshape(1, -1)[:, ::-1], "broadcast": np.broadcast_to(np.float16(3), (3, 2**20))}
    content = generator.bytes(96 * 1024)
    for dtype in DTYPES:
        items = np.frombuffer(content, np.uint8) % 2 == 1 if dtype.kind == "b" else np.frombuffer(content, dtype)
        arrays[dtype.char] = items.reshape(3, -1)
        arrays[f"few {dtype.char}"] = items[:7]
    return arrays


def test_large_arrays_of_every_dtype_and_views_of_any_strides_round_trip(tmp_path: Path) -> None:
    arrays = large_arrays()
    shard = written(tmp_path / "large.h5", arrays)
    assert_same(arrays, tmp_path / "large.h5", shard.digest)
    with h5py.File(tmp_path / "large.h5") as file:
        assert file["transposed"].shape == (700, 1500)
        assert file["transposed"].id.get_offset() % 4096 == 0


def test_digests_are_xxh3_of_the_blocks(tmp_path: Path) -> None:
    arrays = large_arrays()
    shard = written(tmp_path / "large.h5", arrays)
    for name, array in arrays.items():
        content = array.tobytes()
        blocks = [content[start : start + 2**20] for start in range(0, len(content), 2**20)]
        assert shard.arrays[name] == xxhash.xxh3_64(b"".join(map(xxhash.xxh3_64_digest, blocks))).hexdigest()
    with open_shard(tmp_path / "large.h5") as opened, h5py.File(tmp_path / "large.h5") as file:
        assert opened.digests == shard.arrays
        assert xxhash.xxh3_128_hexdigest(file["%index"][()].tobytes()) == shard.digest == opened.digest


def test_equal_arrays_make_equal_files(tmp_path: Path) -> None:
    arrays = large_arrays()
    written(tmp_path / "one.h5", arrays, step=7)
    written(tmp_path / "two.h5", {name: array.copy() for name, array in arrays.items()}, step=7)
    assert (tmp_path / "one.h5").read_bytes() == (tmp_path / "two.h5").read_bytes()
    with h5py.File(tmp_path / "one.h5") as file:
        assert {h5py.h5g.get_objinfo(item.id).mtime for item in (file, *file.values())} == {0}


@settings(max_examples=60)
@given(data=st.data())
def test_any_part_of_an_array_can_be_read(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path, array = tmp_path_factory.getbasetemp() / "part.h5", np.arange(700_000, dtype=np.int32)
    if not path.exists():
        written(path, {"before": array[:10], "w": array})
    edges = st.sampled_from([0, 2**18 - 1, 2**18, 2**18 + 1, 2**19, len(array)]) | st.integers(0, len(array))
    first, stop = sorted((data.draw(edges), data.draw(edges)))
    target = np.full(stop - first, -1, np.int32)
    with open_shard(path) as shard:
        shard.fill("w", first, target)
    np.testing.assert_array_equal(target, array[first:stop])


@pytest.mark.parametrize(
    "name",
    [
        *(
            "../up",
            "/etc/passwd",
            ".",
            "..",
            "...",
            "a//b",
            "%2F",
            "%index",
            "%fused_f8",
            "net.w1",
            "w 1",
            "é",
            "层/重",
        ),
        *("x" * 200, "é" * 512, "x" * 1024),
    ],
)
@pytest.mark.parametrize("size", [3, 9000])
def test_a_name_is_one_entry_of_the_root_group(tmp_path: Path, name: str, size: int) -> None:
    arrays = {name: np.arange(size) + 1.5, "other": np.arange(3)}
    shard = written(tmp_path / "one.h5", arrays)
    assert_same(arrays, tmp_path / "one.h5", shard.digest)
    with h5py.File(tmp_path / "one.h5") as file:
        assert len(file) == 3


def test_many_names_of_all_lengths_round_trip(tmp_path: Path) -> None:
    arrays = {"é" * length: np.full(8192 + length, length) for length in range(1, 512, 3)}
    shard = written(tmp_path / "many.h5", arrays)
    assert_same(arrays, tmp_path / "many.h5", shard.digest)


text = st.text(st.characters(), max_size=5)
attribute = text | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)


@settings(max_examples=60)
@given(attributes=st.dictionaries(text, attribute, max_size=4))
def test_attributes_come_back(tmp_path_factory: pytest.TempPathFactory, attributes: dict[str, Any]) -> None:
    path = tmp_path_factory.getbasetemp() / "attributes.h5"
    write_shard(path, {}, (), attributes)
    with open_shard(path) as shard:
        assert shard.attributes == attributes


def test_each_array_is_released_before_the_next_is_asked_for(tmp_path: Path) -> None:
    alive: list[weakref.ref[NDArray[Any]]] = []

    def made() -> Iterator[tuple[str, NDArray[Any]]]:
        for index in range(6):
            assert all(reference() is None for reference in alive)
            array = np.full((3 + 9000 * (index % 2), 5), index)
            alive.append(weakref.ref(array))
            yield f"w{index}", array
            del array

    infos = {f"w{index}": TensorSpec((3 + 9000 * (index % 2), 5), np.dtype(np.int64)) for index in range(6)}
    write_shard(tmp_path / "lazy.h5", infos, made(), {})
    with open_shard(tmp_path / "lazy.h5") as shard:
        assert read_array(shard, "w5").tolist() == np.full((9003, 5), 5).tolist()


def test_no_second_copy_of_a_large_array_is_made(tmp_path: Path) -> None:
    array = np.ones((2048, 4096), np.float32)
    target = np.empty(array.size, np.float32)
    tracemalloc.start()
    try:
        written(tmp_path / "large.h5", {"w": array, "transposed": array.T, "strided": array[:, ::2]})
        with open_shard(tmp_path / "large.h5") as shard:
            shard.fill("w", 0, target)
            shard.verify()
        assert tracemalloc.get_traced_memory()[1] < array.nbytes // 2
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("order", ["ewv", "wev", "wve", "eewevee"])
def test_empty_arrays_may_stand_anywhere(tmp_path: Path, order: str) -> None:
    known = {"e": np.zeros((3, 0)), "w": np.arange(5.0), "v": np.array(7.0)}
    arrays = {f"{name}{index}": known[name] for index, name in enumerate(order)}
    shard = written(tmp_path / "one.h5", arrays)
    assert_same(arrays, tmp_path / "one.h5", shard.digest)


def test_many_small_arrays_share_a_dataset_for_each_dtype(tmp_path: Path) -> None:
    generator = np.random.default_rng(2)
    arrays = {f"w{index}": generator.standard_normal(2040 - index) for index in range(200)}
    arrays |= {f"v{index}": array.astype(np.float32) for index, array in enumerate(arrays.values())}
    arrays = dict(sorted(arrays.items(), key=lambda item: item[0][1:]))
    shard = written(tmp_path / "small.h5", arrays)
    assert_same(arrays, tmp_path / "small.h5", shard.digest)
    with h5py.File(tmp_path / "small.h5") as file:
        assert sorted(file) == ["%fused_f4", "%fused_f8", "%index"]


def test_only_elements_that_are_there_are_read(tmp_path: Path) -> None:
    written(tmp_path / "one.h5", {"w": np.zeros((2, 3))})
    with open_shard(tmp_path / "one.h5") as shard:
        with pytest.raises(CheckpointError, match='has no array "v"; it has w'):
            read_array(shard, "v")
        for first, target in [
            (0, np.empty(7)),
            (5, np.empty(2)),
            (-1, np.empty(1)),
            (0, np.empty(2, "f4")),
            (0, np.empty(4)[::2]),
        ]:
            with pytest.raises(CheckpointError, match='array "w" has 6 elements of float64; there are no'):
                shard.fill("w", first, target)
    with pytest.raises(CheckpointError, match='array "w": cannot be read'):
        shard.verify()
