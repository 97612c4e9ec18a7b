from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpiparallel.checkpoint.manifest import Manifest, ShardEntry, TensorEntry, layout_from_json, layout_to_json
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

WEIGHT = TensorEntry(Layout((8, 6), DeviceMatrix((2,)), ((0,), ())), "<f4")
MANIFEST = Manifest(
    1,
    77,
    {"net.w1": WEIGHT},
    tuple(ShardEntry(f"rank_{rank}/net-1_77.h5", {"net.w1": "0a1b2c3d"}) for rank in range(2)),
)


@settings(deadline=None)
@given(data=st.data())
def test_layout_comes_back_canonical(layouts: Callable[..., st.SearchStrategy[Layout]], data: st.DataObject) -> None:
    layout = data.draw(layouts())
    if data.draw(st.booleans()):
        layout = layout.on_ranks(data.draw(st.permutations(range(10)))[: layout.devices.size])
    assert layout_from_json(json.loads(json.dumps(layout_to_json(layout)))) == layout.canonical


def test_partial_sum_is_refused() -> None:
    with pytest.raises(CheckpointError, match="reduce it first"):
        layout_to_json(Layout((8,), DeviceMatrix((2,)), ((),), partial=(0,)))


def test_manifest_comes_back(tmp_path: Path) -> None:
    MANIFEST.write(tmp_path)
    assert Manifest.load(tmp_path) == MANIFEST
    assert MANIFEST.rank_count == 2
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_no_flipped_bit_goes_unseen(tmp_path: Path) -> None:
    MANIFEST.write(tmp_path)
    path = tmp_path / "manifest.json"
    content = path.read_bytes()
    chooser, seen = random.Random(7), 0
    for position in [chooser.randrange(8 * len(content)) for _ in range(1000)]:
        damaged = bytearray(content)
        damaged[position // 8] ^= 1 << position % 8
        path.write_bytes(damaged)
        try:
            assert Manifest.load(tmp_path) == MANIFEST
        except CheckpointError:
            seen += 1
    assert seen > 800


def test_missing_manifest_means_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"manifest\.json: is missing, so no checkpoint was completed here"):
        Manifest.load(tmp_path)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (["format"], "mpiparallel checkpoint 2"),
        (["step"], "77"),
        (["rank_count"], 3),
        (["tensors"], []),
        (["tensors", "net.w1", "global_shape"], [8]),
        (["tensors", "net.w1", "tensor_map"], [[0], [5]]),
        (["tensors", "net.w1", "dtype"], "secret"),
        (["shards", 0, "file"], "../../etc/passwd"),
        (["shards", 0, "file"], "rank_0/../x"),
        (["shards", 0, "file"], "rank_1/net-1_77.h5"),
        (["shards", 0, "file"], 3),
        (["shards", 0, "digests"], {"other": "0a1b2c3d"}),
    ],
)
def test_sound_digest_does_not_excuse_wrong_content(tmp_path: Path, keys: list[str | int], value: object) -> None:
    MANIFEST.write(tmp_path)
    path = tmp_path / "manifest.json"
    outer = json.loads(path.read_text())
    place = outer["manifest"]
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    canonical = json.dumps(outer["manifest"], sort_keys=True, separators=(",", ":")).encode()
    path.write_text(json.dumps({**outer, "crc32": f"{crc32(canonical):08x}"}))
    with pytest.raises(CheckpointError, match="is no sound manifest"):
        Manifest.load(tmp_path)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"[" * 100_000, b"\xff", b'{"manifest": 3, "crc32": ""}'])
def test_what_is_no_manifest_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(text)
    with pytest.raises(CheckpointError, match="is no sound manifest"):
        Manifest.load(tmp_path)


def test_manifest_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be written"):
        MANIFEST.write(tmp_path / "missing")
