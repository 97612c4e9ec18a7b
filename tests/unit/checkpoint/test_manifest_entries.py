"""A manifest whose digest is right and whose content is not is refused by its reason, and its limits are told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import xxhash

from mpiparallel.checkpoint.manifest import Manifest, checkpoint_name
from mpiparallel.checkpoint.manifest_entries import ShardEntry, TensorEntry
from mpiparallel.checkpoint.shard_places import ShardPlaces, is_shard_of
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

WEIGHT = TensorEntry(Layout((8, 6), DeviceMatrix((2,)), ((0,), ())), "<f4")
SHARDS = tuple(ShardEntry(f"rank_{rank}/net-1_77.h5", 96, f"{rank:032x}", {"w": f"{rank:016x}"}) for rank in range(2))
SOUND = Manifest("net", 1, 77, {"w": WEIGHT}, (*SHARDS, None), {"seed": 5}, 12.5, {"s.ckpt": "ab" * 16})


def load_changed(folder: Path, *changes: tuple[list[str | int], Any]) -> Manifest:
    """Return what a manifest says of which some values are others, under a digest that is right."""
    path = SOUND.write(folder)
    content = json.loads(path.read_bytes())["manifest"]
    for keys, value in changes:
        place = content
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value
    text = json.dumps(content).encode()
    path.write_bytes(b'{"xxh3": "%s", "manifest": %s}\n' % (xxhash.xxh3_128_hexdigest(text).encode(), text))
    return Manifest.load(path)


def refusal_of(folder: Path, *changes: tuple[list[str | int], Any]) -> str:
    with pytest.raises(CheckpointError) as caught:
        load_changed(folder, *changes)
    begin, end = f"{folder}/net-1_77.manifest.json: is no sound manifest (", "); use an older checkpoint"
    assert str(caught.value).startswith(begin)
    assert str(caught.value).endswith(end)
    return str(caught.value).removeprefix(begin).removesuffix(end)


@pytest.mark.parametrize(
    ("keys", "value", "said"),
    [
        (
            ["format"],
            "mpiparallel checkpoint 1",
            "its format is \"mpiparallel checkpoint 1\", this release reads 'mpiparallel checkpoint 2' and "
            "'mpiparallel checkpoint 3'",
        ),
        (["step"], "77", "[1, '77', 3] is no list of integers"),
        (["prefix"], 7, "7 is no text"),
        (["prefix"], "", "'' cannot begin the name of a checkpoint; use letters, digits, - and _"),
        (["rank_count"], 4, "it names 3 shards of 4 ranks"),
        (["saved"], "now", "what it says of the training is no object, or its time is no number"),
        (["training"], [], "what it says of the training is no object, or its time is no number"),
        (["files"], {"../a": "ab" * 16}, "'../a' is no file below the folder"),
        (["files"], {"/a": "ab" * 16}, "'/a' is no file below the folder"),
        (["files"], {"": "ab" * 16}, "'' is no file below the folder"),
        (["files"], {"a//b": "ab" * 16}, "'a//b' is no file below the folder"),
        (["files"], {"a\n": "ab" * 16}, "'a\\n' is no file below the folder"),
        (["files"], {"a": "AB" * 16}, f"'{'AB' * 16}' is no digest"),
        (["files"], {"a": "ab" * 15}, f"'{'ab' * 15}' is no digest"),
        (["files"], {"a": 7}, "7 is no digest"),
        (["tensors", "w", "global_shape"], [8, 7], 'tensor "w" has more bytes than the 192 of all shards'),
        (["shards", 0, "file"], "rank_1/net-1_77.h5", 'shard "rank_1/net-1_77.h5" is not that of rank 0, rank_0/net'),
        (["shards", 0, "file"], "rank_0/net-1_78.h5", 'shard "rank_0/net-1_78.h5" is not that of rank 0, rank_0/net'),
        (["shards", 0, "file"], "rank_0/net-1_77.npz", 'shard "rank_0/net-1_77.npz" is not that of rank 0, rank_0/ne'),
        (["shards", 0, "size"], 1.5, "[1.5] is no list of integers"),
        (["shards", 0, "digest"], "0" * 31, f"'{'0' * 31}' is no digest"),
        (["shards", 0, "arrays"], {"v": "0" * 16}, 'shard "rank_0/net-1_77.h5" has "v", of which rank 0 holds nothing'),
        (["shards", 0, "arrays"], {"w": "0" * 15}, 'shard "rank_0/net-1_77.h5" has arrays whose digests are none'),
        (["shards", 0, "arrays"], {"w": "0" * 16 + "," + "0" * 16}, 'shard "rank_0/net-1_77.h5" has arrays whose dig'),
        (["shards", 1, "arrays"], 1, "the arrays of rank 1 are to be those of rank 1, which has said none before"),
        (["shards", 1, "arrays"], -1, "the arrays of rank 1 are to be those of rank -1, which has said none before"),
        (["shards", 0, "arrays"], 2, "the arrays of rank 0 are to be those of rank 2, which has said none before"),
    ],
)
def test_what_is_wrong_under_a_right_digest_is_told(
    keys: list[str | int], value: Any, said: str, tmp_path: Path
) -> None:
    assert refusal_of(tmp_path, (keys, value)).startswith(said)


def test_ranks_that_hold_nothing_of_an_array_cannot_have_written_it(tmp_path: Path) -> None:
    entry = {"file": "rank_2/net-1_77.h5", "size": 1, "digest": "0" * 32, "arrays": 0}
    assert refusal_of(tmp_path, (["shards", 2], entry)) == (
        'shard "rank_2/net-1_77.h5" has "w", of which rank 2 holds nothing'
    )


def test_a_tensor_that_no_shard_has_lies_on_ranks_that_there_are_too(tmp_path: Path) -> None:
    changes: list[tuple[list[str | int], Any]] = [(["shards", rank, "arrays"], {}) for rank in (0, 1)]
    assert load_changed(tmp_path, *changes, (["tensors", "w", "first_rank"], 1)).rank_count == 3
    told = refusal_of(tmp_path, *changes, (["tensors", "w", "first_rank"], 2))
    assert told == 'tensor "w" lies on ranks 2 to 3 of 3'


def test_a_file_cannot_be_that_of_two_ranks(tmp_path: Path) -> None:
    file = "ckpt/net-1_77.h5"
    changes: list[tuple[list[str | int], Any]] = [(["shards", rank, "file"], file) for rank in (0, 1)]
    assert refusal_of(tmp_path, *changes) == "it names one file for two ranks"


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (["saved"], 12),
        (["files"], {"strategies/s.ckpt": "ab" * 16, "a b": "0" * 32}),
        (["files"], {}),
        (["tensors", "w", "first_rank"], 0),
        (["shards", 0, "size"], 192),
        (["shards", 0, "file"], "ckpt/net-1_77.safetensors"),
        (["shards", 1, "arrays"], 0),
        (["epoch"], 1),
    ],
)
def test_what_may_be_otherwise_is_read(keys: list[str | int], value: Any, tmp_path: Path) -> None:
    found = load_changed(tmp_path, (keys, value))
    assert found.name == "net-1_77"
    assert isinstance(found.saved, float)


def test_a_tensor_may_have_as_many_bytes_as_all_shards_together(tmp_path: Path) -> None:
    # 8 x 6 numbers of four bytes are 192, as many as two shards of 96.
    assert sum(shard.size for shard in SHARDS) == 192
    assert Manifest.load(SOUND.write(tmp_path)) == SOUND


@pytest.mark.parametrize(("ranks", "told"), [((1, 2), None), ((0, 3), "ranks 0, 3 of 3"), ((2, 1), None)])
def test_a_tensor_lies_on_ranks_that_there_are(ranks: tuple[int, int], told: str | None, tmp_path: Path) -> None:
    layout = Layout((8, 6), DeviceMatrix((2,), ranks=ranks), ((0,), ()))
    shards = tuple(
        replace(SHARDS[0], file=f"rank_{rank}/net-1_77.h5", size=192) if rank in ranks else None for rank in range(3)
    )
    manifest = replace(SOUND, tensors={"w": TensorEntry(layout, "<f4")}, shards=shards)
    path = manifest.write(tmp_path)
    if told is None:
        assert Manifest.load(path).shards == shards
    else:
        with pytest.raises(CheckpointError, match=f'tensor "w" lies on {told}'):
            Manifest.load(path)


def test_a_changed_byte_is_told_with_the_digest_of_what_is_there(tmp_path: Path) -> None:
    path = SOUND.write(tmp_path)
    content = path.read_bytes().replace(b'"seed": 5', b'"seed": 6')
    path.write_bytes(content)
    inner = content[content.index(b'"manifest": ') + 12 : -2]
    with pytest.raises(CheckpointError) as caught:
        Manifest.load(path)
    assert str(caught.value) == (
        f"{path}: is no sound manifest (the XXH3 of its content, {xxhash.xxh3_128_hexdigest(inner)}, is not what it "
        "begins with); use an older checkpoint"
    )


def test_the_file_of_a_manifest_has_the_time_of_its_commit(tmp_path: Path) -> None:
    path = replace(SOUND, saved=1_000_000_000.25).write(tmp_path)
    assert path.stat().st_mtime == 1_000_000_000.25


def test_a_manifest_that_cannot_be_written_tells_how_long_it_is(tmp_path: Path) -> None:
    length = SOUND.write(tmp_path).stat().st_size
    (tmp_path / "file").write_bytes(b"")
    for folder in (tmp_path / "file", "a\0b"):
        with pytest.raises(CheckpointError, match=rf"cannot be written \(.*\); it needs {length} bytes$"):
            SOUND.write(folder)


@pytest.mark.parametrize("prefix", ["", ".a", "a/b", "a\n", "\0"])
def test_a_prefix_that_begins_no_name_is_told(prefix: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        checkpoint_name(prefix, 1, 2)
    assert str(caught.value) == f"{prefix!r} cannot begin the name of a checkpoint; use letters, digits, - and _"
    assert checkpoint_name("a.b-c d", 0, 12) == "a.b-c d-0_12"


@pytest.mark.parametrize(
    ("file", "is_shard"),
    [
        ("rank_3/a-1_2.h5", True),
        ("rank_3/a-1_2.ckpt", True),
        ("a/rank_4/a-1_2.safetensors", True),
        ("a-1_2.h5", True),
        ("rank_03/a-1_2.h5", True),
        ("rank_4/a-1_2.h5", False),
        ("rank_33/a-1_2.h5", False),
        ("rank_3/a-1_2.npz", False),
        ("rank_3/a-1_2", False),
        ("rank_3/b-1_2.h5", False),
    ],
)
def test_a_shard_lies_in_the_folder_of_its_rank_or_in_one_of_any_name(file: str, is_shard: bool) -> None:
    assert is_shard_of(file, "a-1_2", 3) == is_shard


def test_shards_lie_where_the_places_say() -> None:
    places = ShardPlaces(("a", "b/c"), "ckpt")
    assert [places.file("n-1_2", rank) for rank in (0, 1)] == ["a/n-1_2.ckpt", "b/c/n-1_2.ckpt"]
    assert ShardPlaces(format="safetensors").file("n-1_2", 12) == "rank_12/n-1_2.safetensors"
