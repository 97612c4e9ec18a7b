"""What ranks save must be alike where it must, and what they are told where it is not names them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

from mpiparallel.checkpoint.catalogue import newest
from mpiparallel.checkpoint.rank_shard import write_rank_shard
from mpiparallel.checkpoint.saving import ShardSave, file_digest, save_shards, writers
from mpiparallel.checkpoint.shard_places import ShardPlaces
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

SIZE = 4
ROWS = Layout((8,), DeviceMatrix((4,)), ((0,),))
WHOLE = Layout((2,), DeviceMatrix((4,)), ((),))
LAYOUTS = {"w": ROWS, "b": WHOLE}


def save(folder: Path, world: Communicator, arrays: Mapping[str, Any] | None = None, **options: Any) -> Path:
    held = {"w": np.arange(2.0) + 2 * world.rank, "b": np.arange(2.0)} if arrays is None else arrays
    given = {"prefix": "net", "epoch": 1, "step": 7, "layouts": LAYOUTS, "training": {"seed": 5}, **options}
    return save_shards(folder, arrays=held, communicator=world, **given)


def refusals(act: Callable[[Communicator], Any], hosts: tuple[int, ...] | None = None) -> set[str]:
    """Return what the ranks are told, all of which refuse."""

    def refused(world: Communicator) -> str:
        with pytest.raises(CheckpointError) as caught:
            act(world)
        return str(caught.value)

    return set(run_world(SIZE, refused, hosts=hosts))


@pytest.mark.parametrize(
    ("others", "options", "what"),
    [
        ([2], {"step": 8}, "prefix, epoch or step"),
        ([1, 3], {"layouts": {"w": ROWS, "b": Layout((3,), DeviceMatrix((4,)), ((),))}}, "layout of a tensor"),
        ([3], {"layouts": {"w": ROWS, "c": WHOLE}}, "layout of a tensor"),
        ([1], {"training": {"seed": 6}}, "training"),
        ([1, 2, 3], {"remove_redundancy": True}, "remove_redundancy"),
        ([2], {"places": ShardPlaces(format="ckpt")}, "places of shards"),
        ([2], {"epoch": 2, "training": {}}, "prefix, epoch or step and another training"),
    ],
)
def test_ranks_that_save_another_thing_are_told_with_what_it_is(
    others: list[int], options: dict[str, Any], what: str, tmp_path: Path
) -> None:
    told = refusals(lambda world: save(tmp_path, world, **(options if world.rank in others else {})))
    assert told == {
        f"ranks {others} save another {what} than rank 0; give all the same (training: seeds, data, optimizer)"
    }
    assert not list(tmp_path.iterdir())


def test_ranks_may_have_equal_layouts_and_training_in_an_order_of_their_own(tmp_path: Path) -> None:
    def save_alike(world: Communicator) -> None:
        own = {"b": Layout((2,), DeviceMatrix((2, 2)), ((),)), "w": Layout((8,), DeviceMatrix((2, 2)), ((0, 1),))}
        order = 1 if world.rank % 2 else -1
        told = dict([("seed", 5), ("data", {"epoch": 1, "step": 2})][::order])
        save(tmp_path, world, layouts={name: own[name] for name in [*own][::order]}, training=told)

    run_world(SIZE, save_alike)
    assert list(newest(tmp_path).tensors) == ["b", "w"]


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        (
            {"w": np.zeros(2), "v": np.zeros(1)},
            "arrays without a layout here: ['v'], layouts without an array: ['b']; pass one array for each layout of "
            "this rank",
        ),
        ({"w": np.zeros(3), "b": np.zeros(2)}, f'array "w" has shape (3,), but {ROWS} asks for (2,)'),
    ],
)
def test_arrays_that_do_not_fit_are_told_with_their_rank(arrays: dict[str, Any], said: str, tmp_path: Path) -> None:
    told = refusals(lambda world: save(tmp_path, world, arrays if world.rank == 1 else None))
    assert told == {f"rank 1: {said}"}


@pytest.mark.parametrize("value", [object(), float("nan"), {1: {2, 3}}])
def test_what_a_training_tells_must_be_json_values(value: Any, tmp_path: Path) -> None:
    (told,) = refusals(lambda world: save(tmp_path, world, training={"seed": value}))
    assert "training: " in told
    assert "; give numbers, texts, lists and objects that JSON knows" in told


def test_one_tensor_of_two_dtypes_is_told_with_both(tmp_path: Path) -> None:
    def mixed(world: Communicator) -> None:
        kind = np.float64 if world.rank < 3 else np.float32
        save(tmp_path, world, {"w": np.zeros(2), "b": np.zeros(2, kind)})

    assert refusals(mixed) == {
        "rank 0: tensor \"b\" has dtypes ['<f4', '<f8'] on the ranks; give every rank the same one"
    }


@pytest.mark.parametrize(("count", "more"), [(4, ""), (6, " and 2 more")])
def test_slices_that_should_be_equal_are_listed_up_to_four(count: int, more: str, tmp_path: Path) -> None:
    layouts = {f"b{index}": WHOLE for index in range(count)} | {"w": ROWS}

    def drifted(world: Communicator) -> None:
        arrays = {name: np.full(2, float(world.rank == 2)) for name in layouts}
        save(tmp_path, world, arrays, layouts=layouts)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run_world(SIZE, drifted)
    shown = ", ".join(f'"b{index}" on ranks 0 and 2' for index in range(4))
    assert [str(one.message) for one in caught] == [
        f"{tmp_path}: checkpoint net-1_7: slices that should be equal are not: {shown}{more}; the first is what will "
        "be loaded. Ranks have drifted apart: look for a step that they do not do alike"
    ]


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ((0, 0, 0, 0), "name it alike on all ranks"),
        ((0, 0, 2, 2), "save to a folder that all hosts share"),
    ],
)
def test_a_shard_that_is_not_there_is_told_with_its_length(hosts: tuple[int, ...], said: str, tmp_path: Path) -> None:
    (told,) = refusals(lambda world: save(tmp_path / str(world.rank // 2), world), hosts)
    length = (tmp_path / "1" / "rank_2" / "net-1_7.h5").stat().st_size
    path = tmp_path / "0" / "rank_2" / "net-1_7.h5"
    assert told.startswith(f"rank 0: {path}: rank 2 has written {length} bytes there, but here are none; ")
    assert said in told


def test_a_manifest_says_what_each_rank_has_written(tmp_path: Path) -> None:
    run_world(SIZE, lambda world: save(tmp_path, world, remove_redundancy=True))
    manifest = newest(tmp_path)
    assert [sorted(shard.arrays) for shard in manifest.shards if shard] == [["b", "w"], ["w"], ["w"], ["w"]]
    for rank, shard in enumerate(manifest.shards):
        assert shard is not None
        content = np.arange(2.0) + 2 * rank
        blocks = xxhash.xxh3_64_digest(content.tobytes())
        assert shard.arrays["w"] == xxhash.xxh3_64_hexdigest(blocks)
        assert (shard.file, shard.size) == (f"rank_{rank}/net-1_7.h5", (tmp_path / shard.file).stat().st_size)


def test_a_save_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    def give_up(world: Communicator) -> None:
        one = ShardSave(tmp_path, "net", 1, 7, LAYOUTS, world)
        one.path.parent.mkdir()
        one.path.write_bytes(b"of an earlier training")
        one.abandon()
        assert one.path.read_bytes() == b"of an earlier training"
        one.write({"w": np.arange(2.0), "b": np.arange(2.0)})
        assert one.path.exists()
        one.abandon()
        assert not one.path.exists()
        assert one.files is None

    run_world(SIZE, give_up)


def test_rank_0_knows_the_files_that_it_has_committed(tmp_path: Path) -> None:
    def commit(world: Communicator) -> Any:
        one = ShardSave(tmp_path, "net", 1, 7, LAYOUTS, world)
        one.write({"w": np.arange(2.0), "b": np.arange(2.0)})
        assert one.commit() == one.manifest_path == tmp_path / "net-1_7.manifest.json"
        return one.files

    first, *others = run_world(SIZE, commit)
    assert others == [None] * 3
    assert (first.name, first.is_whole(tmp_path)) == ("net-1_7", True)
    assert [file for file, _ in first.shards] == [f"rank_{rank}/net-1_7.h5" for rank in range(SIZE)]


def test_a_lack_of_memory_while_writing_is_told(tmp_path: Path) -> None:
    class Lacking(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            raise MemoryError

    def lack(world: Communicator) -> None:
        arrays = {"w": np.arange(2.0), "b": np.arange(2.0)}
        save(tmp_path, world, Lacking(arrays) if world.rank == 3 else arrays)

    assert refusals(lack) == {"rank 3: MemoryError"}


def test_replicas_are_written_by_the_rank_with_the_least_so_far() -> None:
    sizes = {"a": 3, "b": 5, "c": 2, "d": 1}
    layouts = {name: Layout.replicated((size,), DeviceMatrix((2,))) for name, size in sizes.items()}
    # 5 to the first, 3 to the second, 2 to the second, and 1 to either: the first.
    assert writers(layouts) == {"b": 0, "a": 1, "c": 1, "d": 0}


def test_a_companion_is_known_by_the_digest_of_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "s.ckpt").write_bytes(b"strategy")
    assert file_digest(tmp_path / "s.ckpt") == xxhash.xxh3_128_hexdigest(b"strategy")
    with (tmp_path / "s.ckpt").open("wb") as file:
        file.truncate((256 << 20) + 1)
    with pytest.raises(CheckpointError, match="has 268435457 bytes, more than the 268435456 that it may have"):
        file_digest(tmp_path / "s.ckpt")


@pytest.mark.parametrize("clears", [False, True])
def test_a_shard_takes_the_place_of_what_killed_writers_have_left(clears: bool, tmp_path: Path) -> None:
    own = tmp_path / "rank_2"
    own.mkdir()
    (own / ".partial-1").write_bytes(b"torn")
    (own / "net-1_7.h5").symlink_to("nothing")
    written = write_rank_shard(tmp_path, ("net", 1, 7), 2, {}, [], clears)
    assert written.size == (own / "net-1_7.h5").stat().st_size
    assert (own / ".partial-1").exists() != clears
    with pytest.raises(CheckpointError, match=rf"{own}/net-1_7.h5/x: cannot be made \(.*\); name a folder that can be"):
        write_rank_shard(own / "net-1_7.h5", ("net", 1, 7), 2, {}, [], file="x/y.h5")
