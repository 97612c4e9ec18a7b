"""Files of one message are read as far as they are what they should be, and told by what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.checkpoint.strategy import node_strategy
from mpiparallel.checkpoint.strategy.group_file import read_group_info, restore_group_info_list, write_group_info
from mpiparallel.checkpoint.strategy.merged_stages import merge_pipeline_strategys, stages_of
from mpiparallel.checkpoint.strategy.replica_groups import (
    parameter_replica_groups,
    replica_group_file,
    restore_parameter_group_info,
    write_replica_groups,
)
from mpiparallel.checkpoint.strategy.strategy_file import read_strategy, write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import LayoutItem, StrategyItem, StrategyRecord
from mpiparallel.errors import StrategyFileError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

ROWS = LayoutItem((2,), ((0,), ()), tensor_shape=(4, 6))
LARGEST = 2**31 - 1


def refusal_of(read: Any, *arguments: Any) -> str:
    with pytest.raises(StrategyFileError) as caught:
        read(*arguments)
    return str(caught.value)


def test_a_file_longer_than_any_of_its_kind_is_not_read(tmp_path: Path) -> None:
    for name, read in (("s.ckpt", read_strategy), ("s.json", read_strategy), ("g.pb", read_group_info)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(2**28 + 1)
        said = refusal_of(read, tmp_path / name)
        assert f"has {2**28 + 1} bytes, more than the {2**28} that it may have" in said


def test_bytes_that_fit_no_field_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "g.pb"
    write_group_info(path, [(0, 1)], [0])
    length = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"\xf8\x01\x05")
    assert refusal_of(read_group_info, path) == (
        f"{path}: 3 of its {length + 3} bytes fit no field of a group file; it is damaged, or of a newer format: write "
        "it again"
    )


def test_what_a_message_lacks_is_told(tmp_path: Path) -> None:
    (tmp_path / "s.ckpt").write_bytes(b"")
    assert refusal_of(read_strategy, tmp_path / "s.ckpt") == (
        f"{tmp_path}/s.ckpt: lacks current_stage; it is no strategy file, or was cut off: write it again"
    )


def test_what_is_no_message_is_told(tmp_path: Path) -> None:
    (tmp_path / "s.ckpt").write_bytes(b"\xff" * 9)
    said = refusal_of(read_strategy, tmp_path / "s.ckpt")
    assert said.startswith(f"{tmp_path}/s.ckpt: is no strategy file, or is damaged (")
    assert said.endswith("); write it again, or give the path of one")


def test_a_file_that_is_linked_to_is_read(tmp_path: Path) -> None:
    write_group_info(tmp_path / "g.pb", [], [3, 1])
    (tmp_path / "link.pb").symlink_to("g.pb")
    assert restore_group_info_list(str(tmp_path / "link.pb")) == [3, 1]


@pytest.mark.parametrize("name", ["ParallelStrategyMap", "ParallelGroupMap"])
def test_the_two_messages_are_made_once(name: str) -> None:
    assert getattr(node_strategy, name) is getattr(node_strategy, name)
    with pytest.raises(AttributeError, match="has no attribute 'DevMatrix'"):
        _ = node_strategy.DevMatrix


@pytest.mark.parametrize("ranks", [(0, 0), (-1,), (LARGEST + 1,)])
def test_ranks_to_restore_from_that_cannot_be_are_told(ranks: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / "g.pb"
    assert refusal_of(write_group_info, path, [(LARGEST, 0)], ranks) == (
        f"{path}: restore ranks {list(ranks)}: names a rank twice, or one that cannot be; name each rank once, from 0"
    )
    assert refusal_of(write_group_info, path, [()], [0]) == f"{path}: group []: has no rank; leave empty groups out"
    assert not path.exists()


def test_replica_groups_are_written_by_their_ranks_with_sorted_names(tmp_path: Path) -> None:
    groups = {"w": (1, 3), "a": (3, 1), "b": (0, 1, 2, LARGEST)}
    path = write_replica_groups(tmp_path / "g", 1, groups)
    assert path == tmp_path / "g.parameters.json"
    assert json.loads(path.read_bytes()) == {
        "format": "mpiparallel replica groups 1",
        "rank": 1,
        "groups": [
            {"ranks": [0, 1, 2, LARGEST], "parameters": ["b"]},
            {"ranks": [1, 3], "parameters": ["a", "w"]},
        ],
    }
    assert restore_parameter_group_info(path) == {"b": [0, 1, 2, LARGEST], "a": [1, 3], "w": [1, 3]}


@pytest.mark.parametrize(
    ("name", "beside"), [("x/g.pb", "x/g.parameters.json"), ("g.parameters.json", "g.parameters.json")]
)
def test_replica_groups_lie_beside_the_group_file(name: str, beside: str) -> None:
    assert replica_group_file(name) == Path(beside)


def test_ranks_that_are_none_are_told_shortly(tmp_path: Path) -> None:
    ranks = list(range(2, 99))
    content = {"format": "mpiparallel replica groups 1", "rank": 1, "groups": [{"ranks": ranks, "parameters": []}]}
    (tmp_path / "g.parameters.json").write_text(json.dumps(content))
    assert refusal_of(restore_parameter_group_info, tmp_path / "g.pb") == (
        f"{tmp_path}/g.parameters.json: {str(ranks)[:80]} are no ranks, ascending and with rank 1; write it again"
    )


def test_a_rank_without_a_slice_of_a_parameter_has_no_group_of_it() -> None:
    layouts = {"w": Layout((4,), DeviceMatrix((2,)), ((),)), "v": Layout((4,), DeviceMatrix((2,), 2), ((),))}
    found = [parameter_replica_groups(layouts, rank) for rank in (1, 2, 4)]
    assert found == [{"w": (0, 1)}, {"v": (2, 3)}, {}]


def stage_file(path: Path, stage: int, item: LayoutItem = ROWS) -> None:
    path.parent.mkdir(exist_ok=True)
    write_strategy(path, StrategyRecord({"w": item}, {"MatMul_w": StrategyItem(((1, 1),), stage)}))


def test_each_stage_that_is_missing_is_told(tmp_path: Path) -> None:
    for stage in (1, 4):
        stage_file(tmp_path / "in" / f"{stage}.ckpt", stage)
    assert refusal_of(merge_pipeline_strategys, tmp_path / "in", tmp_path / "m.ckpt") == (
        f"{tmp_path}/in: has no strategy file of stage 0, 2, 3, but one of stage 4; put a file of each stage there"
    )


def test_files_of_one_stage_that_contradict_each_other_are_both_named(tmp_path: Path) -> None:
    stage_file(tmp_path / "in" / "a.ckpt", 0)
    stage_file(tmp_path / "in" / "b.ckpt", 0, LayoutItem((2,), ((), (0,))))
    assert refusal_of(merge_pipeline_strategys, tmp_path / "in", tmp_path / "m.ckpt") == (
        f'{tmp_path}/in/b.ckpt: parameter "w": contradicts the file of stage 0 that {tmp_path}/in/a.ckpt is too; keep '
        "the files of one training only"
    )


@pytest.mark.parametrize("name", ["01-a", "1000000000-a", "-a", "0-", "a-0"])
def test_a_name_that_begins_with_no_stage_belongs_to_none(name: str) -> None:
    said = refusal_of(stages_of, StrategyRecord({"0-b": ROWS, name: ROWS}, {}, 1))
    assert said == (
        f'parameter "{name}": belongs to no stage, though the file is merged; merge the files of the stages again'
    )


def test_the_rest_of_a_merged_name_may_be_anything() -> None:
    (stage,) = stages_of(StrategyRecord({"0-a-1-\nb": ROWS}, {}, 1))
    assert (list(stage.items), stage.ranks) == (["a-1-\nb"], range(2))


def test_a_file_without_parameters_is_on_one_rank() -> None:
    assert [stage.ranks for stage in stages_of(StrategyRecord({}, {}))] == [range(1)]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"stage": 0}, "has the keys ['stage'], not ['parallel_strategy', 'stage']; write the strategy file again"),
        (
            {"stage": 0, "parallel_strategy": [[1]], "more": 1},
            "has the keys ['more', 'parallel_strategy', 'stage'], not ['parallel_strategy', 'stage']; write the "
            "strategy file again",
        ),
        ([], "entry is list, not an object; write the strategy file again"),
        (
            {"stage": 0, "parallel_strategy": [3]},
            "parallel_strategy is 3, not a list; write the strategy file again",
        ),
        (
            {"stage": 0, "parallel_strategy": [[1.0]]},
            "parallel_strategy holds 1.0, not an integer; write the strategy file again",
        ),
        ({"stage": "0", "parallel_strategy": []}, "stage holds '0', not an integer; write the strategy file again"),
    ],
)
def test_an_operator_of_json_that_is_none_is_told(fields: Any, said: str, tmp_path: Path) -> None:
    content = {"current_stage": 2, "parallel_layout_item": {}, "parallel_strategy_item": {"Add_b": fields}}
    (tmp_path / "s.json").write_text(json.dumps(content))
    assert refusal_of(read_strategy, tmp_path / "s.json") == f'{tmp_path}/s.json: operator "Add_b": {said}'


@pytest.mark.parametrize("key", ["dev_matrix", "tensor_map", "tensor_shape", "field", "opt_weight_shard_step"])
def test_a_parameter_of_json_needs_each_of_its_keys_as_numbers(key: str, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    write_strategy(path, StrategyRecord({"w": ROWS}, {}))
    content = json.loads(path.read_bytes())
    content["parallel_layout_item"]["w"][key] = "1"
    path.write_text(json.dumps(content))
    assert f'{path}: parameter "w": {key} ' in refusal_of(read_strategy, path)
    del content["parallel_layout_item"]["w"][key]
    path.write_text(json.dumps(content))
    assert refusal_of(read_strategy, path).startswith(f'{path}: parameter "w": has the keys [')


def test_json_has_bounds_and_a_plan_only_where_there_are_any(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    bounds = LayoutItem((2,), ((0,), ()), param_split_shape=(1, 3), indices_offset=(0, 1), tensor_shape=(4, 6))
    write_strategy(path, StrategyRecord({"v": ROWS, "w": bounds}, {}, plan={"stages": 2}))
    content = json.loads(path.read_bytes())
    entry = {
        "dev_matrix": [2],
        "field": 0,
        "opt_weight_shard_size": 0,
        "opt_weight_shard_step": 0,
        "tensor_map": [0, -1],
        "tensor_shape": [4, 6],
    }
    assert content == {
        "current_stage": 2,
        "parallel_layout_item": {"v": entry, "w": {**entry, "param_split_shape": [1, 3], "indices_offset": [0, 1]}},
        "parallel_strategy_item": {},
        "plan": {"stages": 2},
    }
    assert read_strategy(path) == StrategyRecord({"v": ROWS, "w": bounds}, {}, plan={"stages": 2})
    write_strategy(path, StrategyRecord({"v": ROWS}, {}))
    assert "plan" not in json.loads(path.read_bytes())
