"""A checkpoint that is written anew is cut by rows, lies whole on each rank, or is cut as a strategy file says."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpiparallel.checkpoint.maintenance.conversion import transform_checkpoint
from mpiparallel.checkpoint.maintenance.target_layouts import as_strategy_says, rows_over, whole_on
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.strategy.strategy_file import write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import StrategyRecord
from mpiparallel.errors import CheckpointError, StrategyFileError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.conformance.trainings.saved_checkpoint import save, whole

TWO = DeviceMatrix((2,))


@pytest.mark.parametrize(
    ("shape", "rows"),
    [((8, 6), [2, 2, 2, 2]), ((4,), [1, 1, 1, 1]), ((3, 5), [3] * 4), ((5, 2, 2), [2, 1, 1, 1]), ((0, 4), [0] * 4)],
)
def test_rows_are_cut_where_there_is_one_for_each_rank(shape: tuple[int, ...], rows: list[int]) -> None:
    layout = rows_over({"w": shape}, 4)["w"]
    assert [layout.box(rank).shape for rank in range(4)] == [(count, *shape[1:]) for count in rows]
    assert layout.replica_count == (1 if sum(rows) == shape[0] > 0 else 4)


def test_a_number_is_whole_on_each_rank() -> None:
    for layouts in (rows_over({"step": ()}, 3), whole_on({"step": ()}, 3)):
        assert layouts["step"] == Layout.replicated((), DeviceMatrix((3,)))


def test_what_is_whole_or_one_element_need_not_be_in_the_strategy(tmp_path: Path) -> None:
    rows = Layout((8, 2), TWO, ((0,), ()))
    record = StrategyRecord.of({"0-a": rows, "1-b": rows}, {})
    write_strategy(tmp_path / "s.json", StrategyRecord(record.layouts, record.strategies, 1))
    held = {
        "a": rows,
        "b": rows,
        "step": Layout((), TWO, ()),
        "scale": Layout((1,), TWO, ((0,),)),
        "whole": Layout((7, 3), TWO, ((), ())),
    }
    found = as_strategy_says(tmp_path / "s.json", held)
    assert {name: list(layout.devices.members) for name, layout in found.items()} == {
        "a": [0, 1],
        "b": [2, 3],
        "step": [0, 1, 2, 3],
        "scale": [0, 1, 2, 3],
        "whole": [0, 1, 2, 3],
    }
    assert [found[name].box(3).shape for name in ("step", "scale", "whole")] == [(), (1,), (7, 3)]


def test_what_is_cut_must_be_in_the_strategy(tmp_path: Path) -> None:
    rows = Layout((8, 2), TWO, ((0,), ()))
    write_strategy(tmp_path / "s.json", StrategyRecord.of({"a": rows}, {}))
    with pytest.raises(StrategyFileError) as caught:
        as_strategy_says(tmp_path / "s.json", {"a": rows, "b": rows})
    assert str(caught.value) == (
        f'{tmp_path}/s.json: parameter "b" is not in it, though it is cut in the checkpoint; use the strategy file of '
        "this network, or ask for missing ones to be replicated"
    )


def test_a_shape_that_a_strategy_cannot_cut_is_told_with_the_parameter(tmp_path: Path) -> None:
    write_strategy(tmp_path / "s.json", StrategyRecord.of({"a": Layout((8, 2), TWO, ((0,), ()))}, {}))
    with pytest.raises(StrategyFileError, match=rf'^{tmp_path}/s.json: parameter "a": '):
        as_strategy_says(tmp_path / "s.json", {"a": Layout((8,), TWO, ((0,),))})


def test_ranks_that_get_nothing_write_no_shard(tmp_path: Path) -> None:
    save(tmp_path / "source", layouts={"a": Layout((8, 2), TWO, ((0,), ()))})
    targets = {"a": Layout((8, 2), DeviceMatrix((2,), 2), ((0,), ()))}
    manifest = Manifest.load(transform_checkpoint(tmp_path / "source", tmp_path / "target", targets))
    assert [shard and shard.file for shard in manifest.shards] == [
        None,
        None,
        "rank_2/net-1_77.h5",
        "rank_3/net-1_77.h5",
    ]
    assert not (tmp_path / "target" / "rank_0").exists()


@pytest.mark.parametrize(("once", "times"), [(False, 3), (True, 1)])
def test_progress_of_a_conversion_ends_with_all_bytes_that_are_written(once: bool, times: int, tmp_path: Path) -> None:
    layouts = {"a": Layout((8, 2), TWO, ((0,), ())), "b": Layout((6,), TWO, ((),))}
    save(tmp_path / "source", layouts=layouts)
    told: list[tuple[int, int]] = []
    targets = whole_on({name: layout.global_shape for name, layout in layouts.items()}, 3)
    transform_checkpoint(
        tmp_path / "source", tmp_path / "target", targets, lambda *both: told.append(both), remove_redundancy=once
    )
    nbytes = times * sum(whole(name, 77, layouts).nbytes for name in layouts)
    assert [total for _, total in told] == [nbytes] * (2 * times)
    assert sorted(done for done, _ in told) == [done for done, _ in told]
    assert told[-1] == (nbytes, nbytes)


def test_tensors_that_do_not_match_are_told_eight_of_each_kind(tmp_path: Path) -> None:
    save(tmp_path / "source", layouts={f"a{index}": Layout((2,), TWO, ((0,),)) for index in range(9)})
    others = {f"b{index}": Layout((2,), TWO, ((0,),)) for index in range(9)}
    with pytest.raises(CheckpointError) as caught:
        transform_checkpoint(tmp_path / "source", tmp_path / "target", others)
    assert str(caught.value) == (
        f"{tmp_path}/source: checkpoint net-1_77: tensors without a target layout: {[f'a{n}' for n in range(8)]}, "
        f"layouts without a tensor: {[f'b{n}' for n in range(8)]}; use the strategy of this network"
    )
