from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.checkpoint.saving import save_shards
from mpiparallel.checkpoint.transform.checkpoints import transform_checkpoint_by_rank, transform_checkpoints
from mpiparallel.checkpoint.transform.transform_error import TransformError
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import StrategyFileError
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
    "table": Layout((10, 4), DEVICES, ((0,), ())),
    "step": Layout((), DEVICES, ()),
}
TARGET = {"w": Layout((7, 5), DeviceMatrix((4,)), ((0,), ())), "table": Layout((10, 4), DeviceMatrix((4,)), ((), (0,)))}
WHOLE = {"w": numbers((7, 5)), "table": numbers((10, 4), "int16"), "step": numbers((), "int64")}


@pytest.fixture(params=[False, True], ids=["all ranks write", "one rank writes"])
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A checkpoint of six ranks with uneven cuts and a manifest, and a newer one that was not completed."""

    def save(world: Any) -> None:
        arrays = slices_of(WHOLE, SOURCE, world.rank)
        save_shards(tmp_path / "saved", "net", 1, 7, arrays, SOURCE, world, remove_redundancy=request.param)

    run_world(6, save)
    (tmp_path / "saved" / "rank_0" / "net-1_8.h5").write_bytes(b"torn")
    return tmp_path / "saved"


def test_the_manifest_says_how_our_own_checkpoints_are_cut(saved: Path, tmp_path: Path) -> None:
    transform_checkpoints(saved, tmp_path / "whole", "net")
    assert_same(read_slices(tmp_path / "whole" / "rank_0" / "net0.h5"), WHOLE)
    strategy = write_layouts(tmp_path / "t.ckpt", TARGET)
    report = transform_checkpoints(saved, tmp_path / "out", "net", None, strategy, compare_replicas=True)
    for rank in range(4):
        assert_same(read_slices(report.files[rank]), slices_of(WHOLE, TARGET, rank))
    assert not report.replaced


def test_a_strategy_that_agrees_with_the_manifest_may_be_given_and_no_other(saved: Path, tmp_path: Path) -> None:
    right = write_layouts(tmp_path / "right.ckpt", SOURCE)
    transform_checkpoints(saved, tmp_path / "whole", "net", right)
    assert_same(read_slices(tmp_path / "whole" / "rank_0" / "net0.h5"), WHOLE)
    other = {**SOURCE, "table": replace(SOURCE["table"], tensor_map=((1,), ()))}
    with pytest.raises(TransformError, match=r'^parameter "table": was saved as .* the source strategy has it as'):
        transform_checkpoints(saved, tmp_path / "out", "net", write_layouts(tmp_path / "wrong.ckpt", other))


def test_a_lost_shard_is_replaced_and_one_without_a_replica_is_told(saved: Path, tmp_path: Path) -> None:
    strategy = write_layouts(tmp_path / "t.ckpt", {"table": TARGET["table"], "w": TARGET["w"]})
    shutil.rmtree(saved / "rank_5")
    with pytest.raises(TransformError, match=r'"w": rank 5'):
        transform_checkpoints(saved, tmp_path / "out", "net", None, strategy)


def test_few_shards_are_enough_for_a_rank_as_the_manifest_tells_how_long_dims_are(saved: Path, tmp_path: Path) -> None:
    own = write_layouts(tmp_path / "s.ckpt", {"table": SOURCE["table"]})
    halves = {"table": Layout((10, 4), DeviceMatrix((2,)), ((0,), ()))}
    target = write_layouts(tmp_path / "t.ckpt", halves)
    holder = next(rank for rank in (3, 4, 5) if "table" in read_slices(saved / f"rank_{rank}" / "net-1_7.h5"))
    files = {holder: saved / f"rank_{holder}" / "net-1_7.h5"}
    with pytest.raises((TransformError, StrategyFileError)):
        transform_checkpoint_by_rank(1, files, tmp_path / "one.h5", own, target)
    transform_checkpoint_by_rank(1, files, tmp_path / "one.h5", own, target, missing="replicated")
    assert read_slices(tmp_path / "one.h5")["table"].tobytes() == WHOLE["table"][5:].tobytes()
