from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.checkpoint.catalogue import commit_time
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.saving import save_shards
from mpiparallel.checkpoint.shard_places import IN_RANK_FOLDERS, ShardPlaces
from mpiparallel.checkpoint.transform.checkpoint_files import newest_files
from mpiparallel.checkpoint.transform.checkpoints import transform_checkpoint_by_rank, transform_checkpoints
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import TransformError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.unit.checkpoint.transform.stored_slices import (
    assert_same,
    numbers,
    read_slices,
    slices_of,
    write_layouts,
)

DEVICES = DeviceMatrix((2, 3))
SOURCE = {
    "w": Layout((7, 5), DEVICES, ((), (1,)), optimizer_axes=(0,)),
    "table": Layout((11, 4), DEVICES, ((0,), ())),
    "step": Layout((), DEVICES, ()),
}
TARGET = {"w": Layout((7, 5), DeviceMatrix((4,)), ((0,), ())), "table": Layout((11, 4), DeviceMatrix((4,)), ((), (0,)))}
WHOLE = {"w": numbers((7, 5)), "table": numbers((11, 4), "int16"), "step": numbers((), "int64")}


def save(folder: Path, remove_redundancy: bool, places: ShardPlaces = IN_RANK_FOLDERS) -> Path:
    """Save the state of six ranks, and leave a newer checkpoint that was not completed."""

    def part(world: Any) -> None:
        arrays = slices_of(WHOLE, SOURCE, world.rank)
        save_shards(folder, "net", 1, 7, arrays, SOURCE, world, remove_redundancy=remove_redundancy, places=places)

    run_world(6, part)
    (folder / "rank_0" / "net-1_8.h5").write_bytes(b"torn")
    return folder


@pytest.fixture(params=[False, True], ids=["all ranks write", "one rank writes"])
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A checkpoint with uneven cuts and a manifest."""
    return save(tmp_path / "saved", request.param)


def test_the_manifest_says_how_our_own_checkpoints_are_cut(saved: Path, tmp_path: Path) -> None:
    transform_checkpoints(saved, tmp_path / "whole", "net")
    assert_same(read_slices(tmp_path / "whole" / "rank_0" / "net0.h5"), WHOLE)
    strategy = write_layouts(tmp_path / "t.ckpt", TARGET)
    report = transform_checkpoints(saved, tmp_path / "out", "net", None, strategy, compare_replicas=True)
    for rank in range(4):
        assert_same(read_slices(report.files[rank]), slices_of(WHOLE, TARGET, rank))
    assert not report.replaced


@pytest.mark.parametrize("format_name", ["ckpt", "safetensors"])
def test_checkpoints_in_formats_of_others_are_converted_and_keep_their_format(tmp_path: Path, format_name: str) -> None:
    committed = save(tmp_path / "saved", remove_redundancy=False, places=ShardPlaces(format=format_name))
    (committed / "rank_0" / "net-1_8.h5").unlink()
    report = transform_checkpoints(committed, tmp_path / "out", "net", None, write_layouts(tmp_path / "t.ckpt", TARGET))
    for rank in range(4):
        assert report.files[rank].suffix == f".{format_name}"
        assert_same(read_slices(report.files[rank]), slices_of(WHOLE, TARGET, rank))


def test_a_strategy_that_agrees_with_the_manifest_may_be_given_and_no_other(saved: Path, tmp_path: Path) -> None:
    right = write_layouts(tmp_path / "right.ckpt", SOURCE)
    transform_checkpoints(saved, tmp_path / "whole", "net", right)
    assert_same(read_slices(tmp_path / "whole" / "rank_0" / "net0.h5"), WHOLE)
    other = {**SOURCE, "table": replace(SOURCE["table"], tensor_map=((1,), ()))}
    with pytest.raises(TransformError, match=r'^parameter "table": was saved as .* the source strategy has it as'):
        transform_checkpoints(saved, tmp_path / "out", "net", write_layouts(tmp_path / "wrong.ckpt", other))


def test_a_lost_shard_is_replaced_where_others_have_its_slices_and_told_where_not(tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", remove_redundancy=False)
    strategies = [write_layouts(tmp_path / f"{name}.ckpt", {name: TARGET[name]}) for name in ("table", "w")]
    shutil.rmtree(folder / "rank_3")
    report = transform_checkpoints(folder, tmp_path / "out", "net", None, strategies[0], missing="omitted")
    kept = {name: array for name, array in WHOLE.items() if name != "w"}
    for rank in range(4):
        assert_same(read_slices(report.files[rank]), slices_of(kept, TARGET, rank))
    assert list(report.replaced) == [3]
    assert report.replaced[3].endswith("(read from rank 4)")
    with pytest.raises(TransformError, match=r'is missing, "w": rank 3; .*rank_3'):
        transform_checkpoints(folder, tmp_path / "out", "net", None, strategies[1], missing="omitted")


def test_one_whose_manifest_is_damaged_may_be_the_newest_as_nobody_knows_when_it_was_committed(tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", remove_redundancy=False)
    for rank in range(6):
        shutil.copy(folder / f"rank_{rank}" / "net-1_7.h5", folder / f"rank_{rank}" / "net-1_8.h5")
    assert {path.name for path in newest_files(folder).values()} == {"net-1_7.h5"}
    (folder / "net-1_8.manifest.json").write_bytes(b"torn")
    assert {path.name for path in newest_files(folder).values()} == {"net-1_8.h5"}


def test_few_shards_are_enough_as_the_manifest_tells_how_long_dims_are(saved: Path, tmp_path: Path) -> None:
    table = {"table": SOURCE["table"], "w": SOURCE["w"]}
    quarters = {"table": Layout((11, 4), DeviceMatrix((4,)), ((0,), ()))}
    strategies = write_layouts(tmp_path / "s.ckpt", table), write_layouts(tmp_path / "t.ckpt", quarters)
    holder = next(rank for rank in (3, 4, 5) if "table" in read_slices(saved / f"rank_{rank}" / "net-1_7.h5"))
    files = {holder: saved / f"rank_{holder}" / "net-1_7.h5"}
    for other in set(range(6)) - {holder}:
        shutil.rmtree(saved / f"rank_{other}", ignore_errors=True)
    transform_checkpoint_by_rank(2, files, tmp_path / "two.h5", *strategies, missing="omitted")
    assert read_slices(tmp_path / "two.h5")["table"].tobytes() == WHOLE["table"][6:9].tobytes()


def test_what_each_rank_had_of_its_own_goes_to_the_rank_of_its_number(tmp_path: Path) -> None:
    own = {"bn.mean": Layout((6, 2), DeviceMatrix((3,)), ((0,), ()))}
    whole = {"bn.mean": numbers((6, 2))}
    training = {"own": ["bn.mean"]}
    run_world(
        3,
        lambda world: save_shards(
            tmp_path / "saved", "net", 1, 7, slices_of(whole, own, world.rank), own, world, training=training
        ),
    )
    target = write_layouts(tmp_path / "t.ckpt", {"w": Layout((4,), DeviceMatrix((4,)), ((0,),))})
    report = transform_checkpoints(tmp_path / "saved", tmp_path / "out", "net", None, target)
    for rank in range(4):
        assert_same(read_slices(report.files[rank]), slices_of(whole, own, rank % 3))
    report = transform_checkpoints(tmp_path / "saved", tmp_path / "one", "net")
    assert_same(read_slices(report.files[0]), slices_of(whole, own, 0))


def test_a_rank_that_has_lost_only_its_newest_shard_is_replaced_too(tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", remove_redundancy=False)
    older = {**WHOLE, "table": -WHOLE["table"]}

    def part(world: Any) -> None:
        save_shards(folder, "net", 1, 6, slices_of(older, SOURCE, world.rank), SOURCE, world)

    run_world(6, part)
    # That of step 7 is the newest again.
    replace(Manifest.load(folder / "net-1_7.manifest.json"), saved=commit_time(folder)).write(folder)
    (folder / "rank_4" / "net-1_7.h5").unlink()
    strategy = write_layouts(tmp_path / "t.ckpt", {"table": TARGET["table"]})
    report = transform_checkpoints(folder, tmp_path / "out", "net", None, strategy, missing="omitted")
    kept = {name: array for name, array in WHOLE.items() if name != "w"}
    for rank in range(4):
        assert_same(read_slices(report.files[rank]), slices_of(kept, TARGET, rank))
    assert list(report.replaced) == [4]


def test_what_was_committed_last_is_converted_though_an_earlier_training_came_further(tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", remove_redundancy=False)
    second = {**WHOLE, "table": -WHOLE["table"]}

    def part(world: Any) -> None:
        save_shards(folder, "net_1", 1, 2, slices_of(second, SOURCE, world.rank), SOURCE, world)

    run_world(6, part)
    transform_checkpoints(folder, tmp_path / "whole", "net")
    assert_same(read_slices(tmp_path / "whole" / "rank_0" / "net0.h5"), second)


def test_few_shards_in_folders_of_their_own_are_enough_too(tmp_path: Path) -> None:
    places = ShardPlaces(tuple(f"work/{rank}/ckpt" for rank in range(6)))

    def part(world: Any) -> None:
        save_shards(tmp_path / "saved", "net", 1, 7, slices_of(WHOLE, SOURCE, world.rank), SOURCE, world, places=places)

    run_world(6, part)
    table = write_layouts(tmp_path / "s.ckpt", {"table": SOURCE["table"], "w": SOURCE["w"]})
    quarters = write_layouts(tmp_path / "t.ckpt", {"table": Layout((11, 4), DeviceMatrix((4,)), ((0,), ()))})
    files = {4: tmp_path / "saved" / "work" / "4" / "ckpt" / "net-1_7.h5"}
    transform_checkpoint_by_rank(2, files, tmp_path / "two.h5", table, quarters, missing="omitted")
    assert read_slices(tmp_path / "two.h5")["table"].tobytes() == WHOLE["table"][6:9].tobytes()


def test_what_a_strategy_says_of_others_does_not_keep_it_from_being_compared(saved: Path, tmp_path: Path) -> None:
    others = {"head": SOURCE["w"], "table": replace(SOURCE["table"], tensor_map=((1,), ()))}
    with pytest.raises(
        TransformError, match=r'^parameter "table": was saved as .*; give the src_strategy_file of this'
    ):
        transform_checkpoints(saved, tmp_path / "out", "net", write_layouts(tmp_path / "wrong.ckpt", others))
