from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.checkpoint.strategy import node_strategy
from mpiparallel.checkpoint.strategy.merged_stages import merge_pipeline_strategys, stages_of
from mpiparallel.checkpoint.strategy.strategy_file import read_strategy, write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import LayoutItem, StrategyItem, StrategyRecord
from mpiparallel.errors import MpiParallelError, StrategyFileError

GENUINE = Path(__file__).parents[3] / "fixtures" / "mindspore" / "pipeline2"
ROWS, COLUMNS = LayoutItem((4,), ((0,), ()), tensor_shape=(8, 8)), LayoutItem((2,), ((), (0,)), tensor_shape=(8, 8))


def write_stage(path: Path, stage: int, item: LayoutItem, *names: str) -> None:
    strategies = {f"MatMul_{name}": StrategyItem(((1, 1), (2, 1)), stage) for name in names}
    write_strategy(path, StrategyRecord(dict.fromkeys(names, item), strategies))


@pytest.fixture
def two_stages(tmp_path: Path) -> Path:
    """The files of two stages, that of stage 0 written by two ranks."""
    folder = tmp_path / "strategies"
    folder.mkdir()
    write_stage(folder / "src_strategy0.ckpt", 0, ROWS, "enc-dec.w", "tied")
    write_stage(folder / "src_strategy1.ckpt", 0, ROWS, "enc-dec.w", "tied")
    write_stage(folder / "src_strategy4.ckpt", 1, COLUMNS, "tied", "head")
    return folder


def test_merged_names_are_those_of_mindspore(two_stages: Path, tmp_path: Path) -> None:
    merge_pipeline_strategys(two_stages, tmp_path / "merged.ckpt")
    message = node_strategy.ParallelStrategyMap.FromString((tmp_path / "merged.ckpt").read_bytes())
    assert message.current_stage == 1
    names = [item.param_name for item in message.parallel_layout_item]
    assert names == ["0-enc-dec.w", "0-tied", "1-tied", "1-head"]
    assert {item.node_name: item.parallel_strategys.stage for item in message.parallel_strategy_item} == {
        "MatMul_enc-dec.w": 0,
        "MatMul_tied": 0,
        "MatMul_head": 1,
    }


def test_genuine_stages_are_merged_on_the_ranks_that_wrote_them(tmp_path: Path) -> None:
    merge_pipeline_strategys(GENUINE, tmp_path / "merged.ckpt")
    stages = stages_of(read_strategy(tmp_path / "merged.ckpt"))
    assert [stage.ranks for stage in stages] == [range(4), range(4, 8)]
    for number, name in enumerate(("strategy_rank0.ckpt", "strategy_rank4.ckpt")):
        assert stages[number].items == read_strategy(GENUINE / name).layouts


def test_stages_are_read_on_ranks_that_follow_one_another(two_stages: Path, tmp_path: Path) -> None:
    merge_pipeline_strategys(str(two_stages), str(tmp_path / "merged.ckpt"))
    first, second = stages_of(read_strategy(tmp_path / "merged.ckpt"))
    assert (list(first.items), first.ranks) == (["enc-dec.w", "tied"], range(4))
    assert (list(second.items), second.ranks) == (["tied", "head"], range(4, 6))


def test_layouts_are_on_the_ranks_of_their_stage(two_stages: Path, tmp_path: Path) -> None:
    merge_pipeline_strategys(two_stages, tmp_path / "merged.ckpt")
    shapes = {"enc-dec.w": (8, 8), "tied": (8, 8), "head": (8, 8)}
    first, second = (stage.layouts(shapes) for stage in stages_of(read_strategy(tmp_path / "merged.ckpt")))
    assert [first["tied"].box(rank).shape for rank in range(4)] == [(2, 8)] * 4
    assert [second["tied"].box(rank).start for rank in (4, 5)] == [(0, 0), (0, 4)]
    assert second.keys() == {"tied", "head"}


def test_json_files_are_merged_with_their_shapes(tmp_path: Path) -> None:
    for stage, item in enumerate((ROWS, COLUMNS)):
        (tmp_path / "in").mkdir(exist_ok=True)
        write_stage(tmp_path / "in" / f"{stage}.json", stage, item, "w")
    merge_pipeline_strategys(tmp_path / "in", tmp_path / "merged.json")
    assert json.loads((tmp_path / "merged.json").read_bytes())["current_stage"] == 1
    assert [stage.items["w"].tensor_shape for stage in stages_of(read_strategy(tmp_path / "merged.json"))] == [
        (8, 8)
    ] * 2


def test_a_target_in_the_folder_is_no_source(two_stages: Path) -> None:
    for _ in range(2):
        merge_pipeline_strategys(two_stages, two_stages / "merged.ckpt")
    assert len(stages_of(read_strategy(two_stages / "merged.ckpt"))) == 2


def test_names_are_split_in_merged_files_only() -> None:
    items = {"0-a": ROWS, "1-b": ROWS}
    assert [list(stage.items) for stage in stages_of(StrategyRecord(items, {}))] == [["0-a", "1-b"]]
    assert [list(stage.items) for stage in stages_of(StrategyRecord(items, {}, 1))] == [["a"], ["b"]]
    assert [list(stage.items) for stage in stages_of(StrategyRecord({"enc-dec.w": ROWS}, {}, 1))] == [["enc-dec.w"]]


def test_an_operator_that_mindspore_lists_for_two_stages_is_read(two_stages: Path, tmp_path: Path) -> None:
    merged = node_strategy.ParallelStrategyMap(current_stage=1)
    for stage, name in enumerate(("src_strategy0.ckpt", "src_strategy4.ckpt")):
        message = node_strategy.ParallelStrategyMap.FromString((two_stages / name).read_bytes())
        for item in message.parallel_layout_item:
            item.param_name = f"{stage}-{item.param_name}"
        merged.parallel_strategy_item.extend(message.parallel_strategy_item)
        merged.parallel_layout_item.extend(message.parallel_layout_item)
    (tmp_path / "theirs.ckpt").write_bytes(merged.SerializeToString())
    record = read_strategy(tmp_path / "theirs.ckpt")
    assert record.strategies["MatMul_tied"].stage == 0
    assert [list(stage.items) for stage in stages_of(record)] == [["enc-dec.w", "tied"], ["tied", "head"]]


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ({"0-a": ROWS, "2-b": ROWS}, "it has no parameter of stage 1, but of stage 2"),
        ({"1-b": ROWS}, "it has no parameter of stage 0, but of stage 1"),
        ({"0-a": ROWS, "b": ROWS}, 'parameter "b": belongs to no stage'),
        ({"0-a": ROWS, "enc-dec": ROWS}, 'parameter "enc-dec": belongs to no stage'),
        ({"0-a": ROWS, "0-b": COLUMNS}, 'stage 0: parameter "b" is on 2 devices, "a" on 4'),
        (
            {"0-a": ROWS, "0-b": COLUMNS, "0-c": LayoutItem((8,), ((0,),))},
            'stage 0: parameter "b" is on 2 devices, "a" on 4; use the file of one network',
        ),
    ],
)
def test_merged_files_that_cannot_be_are_refused(items: dict[str, LayoutItem], reason: str) -> None:
    with pytest.raises(StrategyFileError, match=reason):
        stages_of(StrategyRecord(items, {}, 1))


def test_a_missing_stage_is_told(two_stages: Path, tmp_path: Path) -> None:
    (two_stages / "src_strategy0.ckpt").unlink()
    (two_stages / "src_strategy1.ckpt").unlink()
    with pytest.raises(StrategyFileError, match="has no strategy file of stage 0, but one of stage 1"):
        merge_pipeline_strategys(two_stages, tmp_path / "merged.ckpt")
    assert not (tmp_path / "merged.ckpt").exists()


@pytest.mark.parametrize(
    ("stage", "item", "names", "reason"),
    [
        (0, COLUMNS, ("enc-dec.w", "tied"), 'x.ckpt: parameter "enc-dec.w": contradicts the file of stage 0'),
        (0, ROWS, ("enc-dec.w",), 'x.ckpt: parameter "tied": contradicts the file of stage 0'),
        (3, ROWS, ("more",), "has no strategy file of stage 2, but one of stage 3"),
        (0, ROWS, (), r"x.ckpt: it has 0 parameters and no operator is in it"),
    ],
)
def test_files_that_contradict_each_other_are_refused(
    two_stages: Path, tmp_path: Path, stage: int, item: LayoutItem, names: tuple[str, ...], reason: str
) -> None:
    write_stage(two_stages / "x.ckpt", stage, item, *names)
    with pytest.raises(StrategyFileError, match=reason):
        merge_pipeline_strategys(two_stages, tmp_path / "merged.ckpt")


def test_a_file_whose_operators_are_of_two_stages_is_refused(two_stages: Path, tmp_path: Path) -> None:
    strategies = {f"MatMul_{stage}": StrategyItem(((1, 1), (2, 1)), stage) for stage in (1, 2)}
    write_strategy(two_stages / "x.ckpt", StrategyRecord({"w": ROWS}, strategies))
    with pytest.raises(StrategyFileError, match=r"it has 1 parameter and its operators are of stages \[1, 2\]"):
        merge_pipeline_strategys(two_stages, tmp_path / "merged.ckpt")


def test_a_merged_file_is_not_merged_again(two_stages: Path, tmp_path: Path) -> None:
    merge_pipeline_strategys(two_stages, two_stages / "merged.ckpt")
    with pytest.raises(StrategyFileError, match=r"merged.ckpt: it is merged already"):
        merge_pipeline_strategys(two_stages, tmp_path / "again.ckpt")


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ((), "has no strategy file"),
        (("a.txt", ".hidden.ckpt"), "has no strategy file"),
        (("a.ckpt", "b.json"), "has both .ckpt and .json files"),
        (None, "cannot be read"),
    ],
)
def test_a_folder_without_files_of_one_kind_is_refused(tmp_path: Path, files: Any, reason: str) -> None:
    for name in files or ():
        (tmp_path / "in").mkdir(exist_ok=True)
        write_stage(tmp_path / "x.ckpt", 0, ROWS, "w")
        shutil.copy(tmp_path / "x.ckpt", tmp_path / "in" / name)
    if files == ():
        (tmp_path / "in").mkdir()
    with pytest.raises(ValueError, match=reason) as caught:
        merge_pipeline_strategys(tmp_path / "in", tmp_path / "merged.ckpt")
    assert isinstance(caught.value, MpiParallelError)


def test_operators_that_two_ranks_of_a_stage_cut_otherwise_are_refused(two_stages: Path, tmp_path: Path) -> None:
    record = read_strategy(two_stages / "src_strategy1.ckpt")
    other = {**record.strategies, "MatMul_tied": StrategyItem(((2, 1), (1, 1)), 0)}
    write_strategy(two_stages / "src_strategy1.ckpt", StrategyRecord(record.layouts, other))
    with pytest.raises(
        StrategyFileError,
        match=r'src_strategy1.ckpt: operator "MatMul_tied": contradicts the file of stage 0 that .*; keep',
    ):
        merge_pipeline_strategys(two_stages, tmp_path / "merged.ckpt")
    assert not (tmp_path / "merged.ckpt").exists()
