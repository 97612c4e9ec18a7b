from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.checkpoint.manifest import Manifest, checkpoint_name
from mpiparallel.checkpoint.manifest_entries import (
    ShardEntry,
    TensorEntry,
    saved_layout_from_json,
    saved_layout_to_json,
)
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

NAME = "net-1_77.manifest.json"
WEIGHT = TensorEntry(Layout((8, 6), DeviceMatrix((2,)), ((0,), ())), "<f4")
SHARDS = [ShardEntry(f"rank_{rank}/net-1_77.h5", 4096, f"{rank:032x}", {"net.w1": f"{rank:016x}"}) for rank in range(2)]
MANIFEST = Manifest(
    "net",
    1,
    77,
    {"net.w1": WEIGHT},
    (*SHARDS, None),
    {"seed": 5, "position": [1, 2.5]},
    12.5,
    {"strategy.ckpt": "ab" * 16},
)


@given(data=st.data())
def test_layout_comes_back_canonical(layouts: Callable[..., st.SearchStrategy[Layout]], data: st.DataObject) -> None:
    layout = data.draw(layouts())
    if data.draw(st.booleans()):
        layout = layout.on_ranks(data.draw(st.permutations(range(10)))[: layout.devices.size])
    assert saved_layout_from_json(json.loads(json.dumps(saved_layout_to_json(layout)))) == layout.canonical


@pytest.mark.parametrize(
    ("layout", "mend"),
    [
        (Layout((8,), DeviceMatrix((2,)), ((),), partial=(0,)), "reduce it first"),
        (Layout((8,), DeviceMatrix((2,)), ((0,),)).with_bounds([((0, 5), (3, 8))]), "where it is whole"),
    ],
)
def test_what_is_no_cut_of_a_tensor_is_refused(layout: Layout, mend: str) -> None:
    with pytest.raises(CheckpointError, match=mend):
        saved_layout_to_json(layout)


def test_manifest_comes_back(tmp_path: Path) -> None:
    path = MANIFEST.write(tmp_path)
    assert Manifest.load(path) == MANIFEST
    assert MANIFEST.rank_count == 3
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_no_flipped_bit_goes_unseen(tmp_path: Path) -> None:
    path = MANIFEST.write(tmp_path)
    content = path.read_bytes()
    chooser = random.Random(7)
    for position in [chooser.randrange(8 * len(content)) for _ in range(1000)]:
        damaged = bytearray(content)
        damaged[position // 8] ^= 1 << position % 8
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError):
            Manifest.load(path)


def test_missing_manifest_means_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is missing, so this checkpoint was not completed here"):
        Manifest.load(tmp_path / NAME)


def test_what_is_longer_than_any_manifest_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / NAME).open("wb") as file:
        file.truncate(2**30 + 1)
    with pytest.raises(CheckpointError, match=f"has {2**30 + 1} bytes, more than the {2**30} that it may have"):
        Manifest.load(tmp_path / NAME)


def test_a_renamed_manifest_is_refused(tmp_path: Path) -> None:
    path = MANIFEST.write(tmp_path).rename(tmp_path / "net-1_78.manifest.json")
    with pytest.raises(CheckpointError, match='is the manifest of "net-1_77"'):
        Manifest.load(path)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (["format"], "mpiparallel checkpoint 1"),
        (["step"], "77"),
        (["prefix"], "../net"),
        (["rank_count"], 2),
        (["saved"], "now"),
        (["training"], []),
        (["files"], {"../../etc/passwd": "ab" * 16}),
        (["files"], {"/etc/passwd": "ab" * 16}),
        (["files"], {"strategy.ckpt": "AB" * 16}),
        (["tensors"], []),
        (["tensors", "net.w1", "global_shape"], [8]),
        (["tensors", "net.w1", "tensor_map"], [[0], [5]]),
        (["tensors", "net.w1", "device_matrix"], [1 << 62]),
        (["tensors", "net.w1", "global_shape"], [10**300, 6]),
        (["tensors", "net.w1", "global_shape"], [1 << 40, 6]),
        (["tensors", "net.w1", "global_shape"], [1 << 62, 0]),
        (["tensors", "net.w1", "first_rank"], 2),
        (["tensors", "net.w1", "dtype"], "secret"),
        (["tensors", "net.w1", "dtype"], "O"),
        (["tensors", "net.w1", "dtype"], ">f4"),
        (["tensors", "net.w1", "dtype"], "<M8[ns]"),
        (["tensors", "net.w1", "dtype"], [["a", "f4"]]),
        (["shards", 0, "file"], "../../etc/passwd"),
        (["shards", 0, "file"], "rank_0/../x"),
        (["shards", 0, "file"], "rank_1/net-1_77.h5"),
        (["shards", 0, "file"], 3),
        (["shards", 0, "size"], 1.5),
        (["shards", 0, "digest"], "0"),
        (["shards", 0, "arrays"], {"other": "0" * 16}),
        (["shards", 0, "arrays"], {"net.w1": 3}),
        (["shards", 0, "arrays"], {"net.w1": "A" * 16}),
        (["shards", 0, "arrays"], {"net.w1": f"{'0' * 16},{'0' * 16}"}),
        (["shards", 2], {"file": "rank_2/net-1_77.h5", "size": 1, "digest": "0" * 32, "arrays": {"net.w1": "0" * 16}}),
    ],
)
def test_sound_digest_does_not_excuse_wrong_content(tmp_path: Path, keys: list[str | int], value: object) -> None:
    path = MANIFEST.write(tmp_path)
    content = content_of(path)
    place: Any = content
    for key in keys[:-1]:
        place = place[key]
    assert place[keys[-1]] != value
    place[keys[-1]] = value
    rewrite(path, content)
    with pytest.raises(CheckpointError, match="is no sound manifest"):
        Manifest.load(path)


ALIKE = Manifest(
    "net",
    1,
    77,
    {f"net.w{index}": TensorEntry(Layout((8, 6), DeviceMatrix((3,)), ((), ())), "<f4") for index in range(3)},
    tuple(
        ShardEntry(f"rank_{rank}/net-1_77.h5", 4096, "0" * 32, {f"net.w{index}": f"{index:016x}" for index in range(3)})
        for rank in range(3)
    ),
)


def content_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_bytes())["manifest"]
    return found


def rewrite(path: Path, content: dict[str, Any]) -> None:
    text = json.dumps(content).encode()
    path.write_bytes(b'{"xxh3": "%s", "manifest": %s}\n' % (xxhash.xxh3_128_hexdigest(text).encode(), text))


def test_what_tensors_and_ranks_have_in_common_is_said_once(tmp_path: Path) -> None:
    path = ALIKE.write(tmp_path)
    content = content_of(path)
    assert [content["tensors"]["net.w1"], content["tensors"]["net.w2"]] == ["net.w0", "net.w0"]
    assert [shard["arrays"] for shard in content["shards"][1:]] == [0, 0]
    assert Manifest.load(path) == ALIKE


def test_manifest_that_says_everything_in_full_is_read(tmp_path: Path) -> None:
    path = ALIKE.write(tmp_path)
    content = content_of(path)
    content["format"] = "mpiparallel checkpoint 2"
    content["tensors"] = dict.fromkeys(content["tensors"], content["tensors"]["net.w0"])
    content["shards"] = [{**shard, "arrays": content["shards"][0]["arrays"]} for shard in content["shards"]]
    rewrite(path, content)
    assert Manifest.load(path) == ALIKE


@pytest.mark.parametrize(
    ("tensor", "arrays"),
    [
        ("net.w1", 0),
        ("net.w2", 0),
        ("net.w9", 0),
        ("net.w0", 1),
        ("net.w0", 2),
        ("net.w0", 3),
        ("net.w0", -1),
        ("net.w0", False),
    ],
)
def test_names_of_what_is_not_said_in_full_are_refused(tmp_path: Path, tensor: str, arrays: int) -> None:
    path = ALIKE.write(tmp_path)
    content = content_of(path)
    content["tensors"]["net.w1"] = tensor
    content["shards"][1]["arrays"] = arrays
    rewrite(path, content)
    with pytest.raises(CheckpointError, match="is no sound manifest"):
        Manifest.load(path)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"[" * 100_000, b"\xff", b'{"manifest": 3, "xxh3": ""}'])
def test_what_is_no_manifest_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / NAME).write_bytes(text)
    with pytest.raises(CheckpointError, match="is no sound manifest"):
        Manifest.load(tmp_path / NAME)


def test_manifest_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be written"):
        MANIFEST.write(tmp_path / "missing")


@pytest.mark.parametrize("prefix", ["../net", ".net", "a/b", "a\nb", "a\0b", ""])
def test_prefix_must_be_part_of_a_name(prefix: str) -> None:
    with pytest.raises(CheckpointError, match="cannot begin the name"):
        checkpoint_name(prefix, 1, 1)


ONE_FILE = "ckpt/net-1_77.h5"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({("shards", 0): {"file": ONE_FILE}, ("shards", 1): {"file": ONE_FILE}}, "it names one file for two ranks"),
        (
            {("tensors", "net.w1"): {"tensor_map": [[], []], "partial": [0], "reduction": "sum"}},
            r"is a partial sum\); use an older checkpoint",
        ),
    ],
)
def test_a_manifest_of_what_cannot_have_been_saved_is_refused_by_its_reason(
    tmp_path: Path, changes: dict[tuple[str, Any], dict[str, Any]], reason: str
) -> None:
    path = MANIFEST.write(tmp_path)
    content = content_of(path)
    for (part, key), fields in changes.items():
        content[part][key] |= fields
    rewrite(path, content)
    with pytest.raises(CheckpointError, match=rf"{NAME}: is no sound manifest \(.*{reason}"):
        Manifest.load(path)
