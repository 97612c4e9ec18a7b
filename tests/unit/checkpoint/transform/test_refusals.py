from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mpiparallel.checkpoint.transform.checkpoints import transform_checkpoint_by_rank, transform_checkpoints
from mpiparallel.communication.threads import alone
from mpiparallel.errors import CheckpointError, MpiParallelError, TransformError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.unit.checkpoint.transform.perceptron import LAYOUTS, WHOLE, mlp
from tests.unit.checkpoint.transform.stored_slices import (
    assert_same,
    numbers,
    read_slices,
    slices_of,
    write_layouts,
    write_slices,
    write_state,
)

GENUINE = Path(__file__).parents[3] / "fixtures" / "mindspore" / "e2e_8to4"
GENUINE_SOURCE, GENUINE_TARGET = GENUINE / "src_strategy.ckpt", GENUINE / "dst_strategy.ckpt"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"output_format": "pickle"}, "output_format is 'pickle'"),
        ({"ckpt_prefix": "../up"}, "cannot begin a file's name"),
        ({"ckpt_prefix": ""}, "cannot begin a file's name"),
        ({"process_num": 0}, "process_num is 0"),
        ({"process_num": True}, "process_num is True"),
        ({"process_num": 2, "communicator": alone()}, "process_num is 2; give 1 or more, and 1 with a communicator"),
        ({"missing": "guess"}, "missing is 'guess'"),
        ({"src_checkpoints_dir": 3}, "src_checkpoints_dir is a int"),
        ({"src_checkpoints_dir": "nowhere"}, "cannot be read as a folder of checkpoints"),
        ({"src_strategy_file": None}, "is of rank 1, but the source strategy is one of 1 ranks"),
        ({"src_strategy_file": "nowhere.ckpt"}, "cannot be read"),
        ({"dst_strategy_file": "."}, "cannot be read"),
        ({"src_strategy_file": GENUINE_TARGET}, "is of rank 4, but the source strategy is one of 4 ranks"),
    ],
)
def test_wrong_arguments_are_told_and_nothing_is_written(
    eight: Path, tmp_path: Path, strategies, arguments: dict[str, Any], reason: str
) -> None:
    given = {
        "src_checkpoints_dir": eight,
        "dst_checkpoints_dir": tmp_path / "out",
        "ckpt_prefix": "net",
        "src_strategy_file": strategies[8],
        "dst_strategy_file": strategies[4],
    }
    with pytest.raises(ValueError, match=reason) as caught:
        transform_checkpoints(**(given | arguments))
    assert isinstance(caught.value, MpiParallelError)
    assert not (tmp_path / "out").exists()


def test_a_strategy_that_the_slices_do_not_fit_is_refused(eight: Path, tmp_path: Path, strategies) -> None:
    unsharded = write_layouts(tmp_path / "unsharded.json", mlp((2, 4), (), (1,)))
    with pytest.raises(TransformError, match=r'parameter "net.w1": has shape \(32, 8\) on rank 0, where .* \(64, 8\)'):
        transform_checkpoints(eight, tmp_path / "out", "net", unsharded, strategies[4])
    smaller = {name: Layout((8, 8), DeviceMatrix((4,)), ((0,), ())) for name in LAYOUTS[8]}
    with pytest.raises(ValueError, match=r'"net.w1": it has shape \(8, 8\) in the file, not \(64, 32\)'):
        transform_checkpoints(
            eight, tmp_path / "out", "net", strategies[8], write_layouts(tmp_path / "s.json", smaller)
        )


def test_slices_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    layouts = {"w": Layout((6, 4), DeviceMatrix((2, 2)), ((0,), ()))}
    strategy = write_layouts(tmp_path / "s.ckpt", layouts)
    write_state(tmp_path / "in", {"w": numbers((6, 4))}, layouts, 4)
    for array, reason in [
        (numbers((2, 4)), "ranks 2 and 3 have the same part of dim 0, but 3 and 2 elements"),
        (numbers((12,)), "has 1 dims on rank 3, 2 in the strategy"),
        (numbers((3, 4), "float64"), "is float32 on rank 0, float64 on rank 3"),
    ]:
        write_slices(tmp_path / "in" / "rank_3" / "net-1_7.ckpt", {"w": array})
        with pytest.raises(TransformError, match=f'^parameter "w": .*{reason}'):
            transform_checkpoints(tmp_path / "in", tmp_path / "out", "net", strategy)


def test_few_files_of_an_uneven_cut_are_completed_by_what_lies_beside_them(tmp_path: Path) -> None:
    layouts = {"w": Layout((6, 2), DeviceMatrix((4,)), ((0,), ()))}
    halves = {"w": Layout((6, 2), DeviceMatrix((2,)), ((0,), ()))}
    whole = {"w": numbers((6, 2))}
    write_state(tmp_path / "in", whole, layouts, 4)
    files = {rank: tmp_path / "in" / f"rank_{rank}" / "net-1_7.ckpt" for rank in (0, 1)}
    strategies = write_layouts(tmp_path / "s.ckpt", layouts), write_layouts(tmp_path / "t.ckpt", halves)
    transform_checkpoint_by_rank(0, files, tmp_path / "zero.ckpt", *strategies)
    assert_same(read_slices(tmp_path / "zero.ckpt"), slices_of(whole, halves, 0))


def test_source_is_not_overwritten(eight: Path, strategies) -> None:
    with pytest.raises(TransformError, match="is source and target"):
        transform_checkpoints(eight, eight / ".." / "eight", "net", strategies[8], strategies[4])
    path = eight / "rank_0" / "net-1_7.ckpt"
    files = {rank: eight / f"rank_{rank}" / "net-1_7.ckpt" for rank in range(8)}
    with pytest.raises(TransformError, match="is a source too"):
        transform_checkpoint_by_rank(0, files, path, strategies[8], strategies[4])


def test_a_target_file_is_there_whole_or_not_at_all(tmp_path: Path, strategies) -> None:
    write_state(tmp_path / "eight", WHOLE, LAYOUTS[8], 8, "net-1_7.h5")
    damaged = tmp_path / "eight" / "rank_1" / "net-1_7.h5"
    content = damaged.read_bytes()
    last = slices_of(WHOLE, LAYOUTS[8], 1)["moments.net.w2"].tobytes()
    assert content.count(last) == 1
    damaged.write_bytes(content.replace(last, last[:-1] + b"\xff"))
    write_slices(tmp_path / "out" / "rank_3" / "net3.h5", slices_of(WHOLE, LAYOUTS[4], 3))  # of an older step, say
    with pytest.raises(CheckpointError, match=r'"moments.net.w2" .*is lost.*rank_1.*damaged'):
        transform_checkpoints(tmp_path / "eight", tmp_path / "out", "net", strategies[8], strategies[4])
    assert [path.name for path in (tmp_path / "out").rglob("*") if path.is_file()] == ["net0.h5"]
    assert_same(read_slices(tmp_path / "out" / "rank_0" / "net0.h5"), slices_of(WHOLE, LAYOUTS[4], 0))


@pytest.mark.parametrize(
    ("rank", "files", "reason"),
    [
        (4, {0: "a.ckpt"}, "rank_id is 4; the target strategy has ranks 0 to 3"),
        (-1, {0: "a.ckpt"}, "rank_id is -1"),
        ("0", {0: "a.ckpt"}, "rank_id is '0'"),
        (0, {}, "no checkpoint file to convert"),
        (0, {"0": "a.ckpt"}, "no dict of files by source rank"),
        (0, ["a.ckpt"], "no dict of files by source rank"),
        (0, {0: 3}, r"checkpoint_files_map\[0\] is a int"),
        (0, {0: "a.ckpt", 4: "a.h5"}, "are of two formats"),
        (0, {0: "nowhere.ckpt"}, "no file can be read: .*nowhere.ckpt"),
    ],
)
def test_wrong_arguments_by_rank_are_told(tmp_path: Path, strategies, rank: Any, files: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        transform_checkpoint_by_rank(rank, files, tmp_path / "x.ckpt", strategies[8], strategies[4])
    assert isinstance(caught.value, MpiParallelError)


def test_a_needed_rank_that_was_not_given_is_told(eight: Path, tmp_path: Path, strategies) -> None:
    files = {2: eight / "rank_2" / "net-1_7.ckpt"}
    with pytest.raises(ValueError, match=r'what it needs is missing, "net.w1": rank 6; "net.w2": rank 6'):
        transform_checkpoint_by_rank(2, files, tmp_path / "x.ckpt", strategies[8], strategies[4])
