from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mpiparallel.checkpoint.strategy.merged_stages import merge_pipeline_strategys
from mpiparallel.checkpoint.strategy.strategy_file import write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import LayoutItem, StrategyRecord
from mpiparallel.checkpoint.transform.rank_list import rank_list_for_transform
from mpiparallel.errors import MpiParallelError, StrategyFileError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.unit.checkpoint.transform.stored_slices import write_layouts

GENUINE = Path(__file__).parents[3] / "fixtures" / "mindspore" / "e2e_8to4"


def rows(parts: int, extent: int = 12) -> dict[str, Layout]:
    return {"w": Layout((extent, 4), DeviceMatrix((parts,)), ((0,), ()))}


def columns(parts: int) -> dict[str, Layout]:
    return {"w": Layout((12, 4), DeviceMatrix((parts,)), ((), (0,)))}


def test_the_lists_of_mindspore_for_its_own_strategies() -> None:
    eight, four = GENUINE / "src_strategy.ckpt", GENUINE / "dst_strategy.ckpt"
    assert [rank_list_for_transform(rank, eight, four) for rank in range(4)] == [[4, 0], [5, 1], [6, 2], [7, 3]]
    assert rank_list_for_transform(4, four, eight) == [0]
    assert rank_list_for_transform(3, None, eight) == [0]
    assert rank_list_for_transform(0, eight, None) == [7, 6, 5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("source", "target", "lists"),
    [
        (rows(4), rows(2), [[1, 0], [3, 2]]),
        (rows(2), rows(4), [[0], [0], [1], [1]]),
        (rows(4), rows(3), [[1, 0], [2, 1], [3, 2]]),
        (rows(2), columns(2), [[1, 0], [1, 0]]),
        (rows(4, 10), rows(2, 10), [[1, 0], [3, 2, 1]]),
        # All ranks have all: the rank itself is asked, or the one at its place.
        (columns(1), rows(2), [[0], [0]]),
        ({"w": Layout.replicated((12, 4), DeviceMatrix((4,)))}, rows(6), [[0], [1], [2], [3], [0], [1]]),
    ],
)
def test_lists_have_the_ranks_whose_rows_are_needed(
    tmp_path: Path, source: dict[str, Layout], target: dict[str, Layout], lists: list[list[int]]
) -> None:
    files = write_layouts(tmp_path / "s.json", source), write_layouts(tmp_path / "t.json", target)
    assert [rank_list_for_transform(rank, *files) for rank in range(len(lists))] == lists


def test_bounds_of_the_user_count(tmp_path: Path) -> None:
    table = LayoutItem((3,), ((0,), ()), param_split_shape=(1, 7, 8), indices_offset=(0, 1, 8))
    write_strategy(tmp_path / "s.ckpt", StrategyRecord({"table": table}, {}))
    halves = {"table": Layout((16, 4), DeviceMatrix((2,)), ((0,), ()))}
    target = write_layouts(tmp_path / "t.ckpt", halves)
    assert [rank_list_for_transform(rank, tmp_path / "s.ckpt", target) for rank in (0, 1)] == [[1, 0], [2]]


def test_each_stage_has_a_rank_in_the_list_for_what_no_strategy_names(tmp_path: Path) -> None:
    merge_pipeline_strategys(GENUINE.parent / "pipeline2", tmp_path / "s.ckpt")
    first_stage = {"net.s0.w1": Layout((64, 64), DeviceMatrix((4,)), ((), (0,)))}
    target = write_layouts(tmp_path / "t.ckpt", first_stage)
    lists = [rank_list_for_transform(rank, tmp_path / "s.ckpt", target, missing="omitted") for rank in range(4)]
    assert lists == [[4, 0], [4, 1], [4, 2], [4, 3]]


@pytest.mark.parametrize("rank", [4, -1, True, "0", None])
def test_a_rank_that_the_target_has_not_is_told(rank: Any) -> None:
    with pytest.raises(ValueError, match="the target strategy has ranks 0 to 3") as caught:
        rank_list_for_transform(rank, GENUINE / "src_strategy.ckpt", GENUINE / "dst_strategy.ckpt")
    assert isinstance(caught.value, MpiParallelError)


def test_a_strategy_of_more_ranks_than_can_be_is_refused(tmp_path: Path) -> None:
    write_strategy(tmp_path / "s.ckpt", StrategyRecord({"w": LayoutItem((1 << 15, 1 << 15), ((0,), (1,)))}, {}))
    with pytest.raises(StrategyFileError, match="tells of 1073741824 ranks"):
        rank_list_for_transform(0, tmp_path / "s.ckpt", None)


def test_strategies_of_two_networks_are_refused(tmp_path: Path) -> None:
    vector = {"w": Layout((12,), DeviceMatrix((2,)), ((0,),))}
    files = write_layouts(tmp_path / "s.ckpt", rows(2)), write_layouts(tmp_path / "t.ckpt", vector)
    with pytest.raises(StrategyFileError, match=r'^parameter "w": .* different numbers of dims'):
        rank_list_for_transform(0, *files)
