"""``mpiparallel ckpt show`` on the strategy and group files that MindSpore and training write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.checkpoint.strategy.strategy_file import write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import StrategyItem, StrategyRecord
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

Run = Callable[..., tuple[int, str, str]]
Parsed = Callable[..., dict[str, Any]]
FIXTURES = Path(__file__).parents[3] / "fixtures" / "mindspore"


def test_a_file_of_mindspore_says_what_the_network_was_given(parsed: Parsed, run: Run) -> None:
    path = FIXTURES / "tutorial_semi_2dev" / "strategy_rank0.ckpt"
    told = parsed("show", str(path))
    assert told["kind"] == "strategy file"
    # The tutorial's network: a product whose weight is cut in two by columns, with its momentum.
    assert told["operators"] == [{"name": "MatMul_net.weight", "strategy": [[1, 1], [1, 2]], "stage": 0}]
    assert {entry["name"]: entry["parts"] for entry in told["parameters"]} == {
        "net.weight": [1, 2],
        "moments.net.weight": [1, 2],
    }
    code, out, _ = run("show", str(path))
    assert code == 0
    assert "2 ranks a stage, 2 parameters, 1 operator" in out
    assert "MatMul_net.weight  ((1, 1), (1, 2))" in out


@pytest.mark.parametrize("name", ["strategy.ckpt", "strategy.json"])
def test_parameters_are_told_with_their_optimizer_shards_and_chosen_by_only(
    name: str, parsed: Parsed, run: Run
) -> None:
    devices = DeviceMatrix((2, 4))
    layouts = {
        "net.w": Layout((8, 6), devices, ((), (1,)), optimizer_axes=(0,)),
        "net.b": Layout((6,), devices, ((1,),)),
    }
    write_strategy(name, StrategyRecord.of(layouts, {"MatMul_net.w": ((2, 1), (1, 4))}))
    weight = next(entry for entry in parsed("show", name)["parameters"] if entry["name"] == "net.w")
    assert weight["shape"] == ([8, 6] if name.endswith(".json") else None)
    # As the file has it: dims uncut and by the axes from the right; the optimizer shards take all replicas.
    assert (weight["device_matrix"], weight["tensor_map"], weight["parts"]) == ([2, 4], [-1, 0], [1, 4])
    assert weight["opt_weight_shard_size"] == -1
    assert [entry["name"] for entry in parsed("show", name, "--only", "*.b")["parameters"]] == ["net.b"]
    shown = run("show", name)[1].splitlines()
    # The bias is not cut by the optimizer, and the file does not say into how many shards the weight is.
    assert [line.rstrip().partition(" a part")[2] for line in shown if " a part" in line] == [
        "",
        ", cut once more by the optimizer",
    ]
    assert "has no parameter that --only names" in run("show", name, "--only", "x")[2]


def test_a_file_of_strategies_alone_says_that_it_has_no_rank(run: Run) -> None:
    write_strategy("alone.ckpt", StrategyRecord({}, {"MatMul_net": StrategyItem(((1, 2), (2, 1)))}))
    assert "alone.ckpt: strategy file, 0 ranks a stage, 0 parameters, 1 operator" in run("show", "alone.ckpt")[1]


def test_group_files_tell_groups_and_whose_checkpoints_replace_each_other(parsed: Parsed, run: Run) -> None:
    path = FIXTURES / "tutorial_semi_2dev" / "group_info_rank0.pb"
    assert parsed("show", str(path)) == {
        "state": str(path),
        "kind": "group file",
        "groups": [],
        "restore_ranks": [0],
    }
    assert "replace each other: 0" in run("show", str(path))[1]


def test_the_groups_of_a_file_are_told_with_their_ranks(parsed: Parsed, run: Run) -> None:
    path = FIXTURES / "mm_dp2mp4_train" / "group_info_rank5.pb"
    told = parsed("show", str(path))
    assert {tuple(group["ranks"]) for group in told["groups"]} >= {(1, 5), (4, 5, 6, 7)}
    assert told["restore_ranks"] == [1, 5]
    lines = [line.split(maxsplit=1) for line in run("show", str(path))[1].splitlines()]
    for group in told["groups"]:
        assert [group["name"], ", ".join(map(str, group["ranks"]))] in lines


@pytest.mark.parametrize("suffix", [".ckpt", ".pb"])
def test_a_damaged_one_is_refused(suffix: str, run: Run) -> None:
    content = (FIXTURES / "tutorial_semi_2dev" / "strategy_rank0.ckpt").read_bytes()
    Path(f"cut{suffix}").write_bytes(content[:-3])
    code, out, err = run("show", f"cut{suffix}")
    assert (code, out) == (2, "")
    assert f"cut{suffix}" in err
    assert "strategy file" in err


def test_there_is_no_picture_of_a_strategy_file(run: Run) -> None:
    code, _, err = run("show", str(FIXTURES / "tutorial_semi_2dev" / "strategy_rank0.ckpt"), "--svg", "held.svg")
    assert code == 2
    assert "--svg held.svg" in err
    assert not Path("held.svg").exists()
