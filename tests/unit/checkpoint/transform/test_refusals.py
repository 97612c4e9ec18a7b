from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpiparallel.checkpoint.strategy.strategy_file import write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import LayoutItem, StrategyRecord
from mpiparallel.checkpoint.transform import target_slices
from mpiparallel.checkpoint.transform.checkpoints import transform_checkpoint_by_rank, transform_checkpoints
from mpiparallel.communication.threads import alone
from mpiparallel.errors import CheckpointError, MpiParallelError, StrategyFileError, TransformError
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
        (
            {"src_strategy_file": GENUINE_TARGET},
            r"rank_4/net-1_7\.ckpt: is of rank 4, but the source strategy is one of 4 ranks",
        ),
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


def test_a_parameter_that_no_strategy_names_must_have_one_shape(tmp_path: Path) -> None:
    strategy = write_layouts(tmp_path / "s.ckpt", {"w": Layout((4,), DeviceMatrix((2,)), ((0,),))})
    for rank in range(2):
        arrays = {"w": numbers((2,)), "table": numbers((3 + rank, 4))}
        write_slices(tmp_path / "in" / f"rank_{rank}" / "net-1_7.ckpt", arrays)
    with pytest.raises(
        TransformError,
        match=r'"table": is in no source strategy and has shape \(3, 4\) on rank 0, \(4, 4\) on rank 1, so how it is '
        "cut is not known; give the src_strategy_file that names it",
    ):
        transform_checkpoints(tmp_path / "in", tmp_path / "out", "net", strategy)


def test_how_long_an_uneven_cut_is_cannot_be_told_from_unlike_parts(tmp_path: Path) -> None:
    layouts = {"w": Layout((5, 2), DeviceMatrix((3,)), ((0,), ()))}
    strategy = write_layouts(tmp_path / "s.ckpt", layouts)
    files = {}
    for rank in (0, 2):
        files[rank] = tmp_path / f"{rank}.ckpt"
        write_slices(files[rank], slices_of({"w": numbers((5, 2))}, layouts, rank))
    with pytest.raises(
        TransformError, match=r'parameter "w": 2 of 3 parts of dim 0 are there, of \[1, 2\] elements, .* give the files'
    ):
        transform_checkpoint_by_rank(0, files, tmp_path / "x.ckpt", strategy)


def test_bounds_that_are_not_as_many_as_the_parts_are_refused(tmp_path: Path) -> None:
    table = LayoutItem((2,), ((0,), ()), param_split_shape=(1, 3, 4), indices_offset=(0, 1, 4), tensor_shape=(8, 3))
    write_strategy(tmp_path / "s.json", StrategyRecord({"w": table}, {}))
    for rank in range(2):
        write_slices(tmp_path / "in" / f"rank_{rank}" / "net-1_7.ckpt", {"w": numbers((4, 3))})
    with pytest.raises(StrategyFileError, match=r'parameter "w": .*; use the file of this network$'):
        transform_checkpoints(tmp_path / "in", tmp_path / "out", "net", tmp_path / "s.json")


@pytest.mark.parametrize(
    ("name", "reason"),
    [("net0.ckpt", "net0.ckpt: is in the way and cannot be deleted"), (".", "rank_0.*: is in the way|cannot be made")],
)
def test_what_is_in_the_way_of_a_file_is_named(eight: Path, tmp_path: Path, strategies, name: str, reason: str) -> None:
    in_the_way = tmp_path / "out" / "rank_0" / name
    if name == ".":
        in_the_way.parent.mkdir()
        in_the_way.write_bytes(b"kept")
    else:
        in_the_way.mkdir(parents=True)
    with pytest.raises(CheckpointError, match=reason):
        transform_checkpoints(eight, tmp_path / "out", "net", strategies[8], strategies[4])
    assert [path for path in (tmp_path / "out").rglob("*") if path.name.startswith("net")] in ([], [in_the_way])


def test_a_folder_that_cannot_be_made_is_told(eight: Path, tmp_path: Path, strategies) -> None:
    files = {rank: eight / f"rank_{rank}" / "net-1_7.ckpt" for rank in range(8)}
    (tmp_path / "file").write_bytes(b"kept")
    with pytest.raises(CheckpointError, match=rf"{tmp_path}/file: cannot be made \(.*; choose a writable folder"):
        transform_checkpoint_by_rank(0, files, tmp_path / "file" / "x.ckpt", strategies[8], strategies[4])
    assert (tmp_path / "file").read_bytes() == b"kept"


def test_a_name_without_a_suffix_gets_that_of_the_sources(eight: Path, tmp_path: Path, strategies) -> None:
    files = {rank: eight / f"rank_{rank}" / "net-1_7.ckpt" for rank in range(8)}
    report = transform_checkpoint_by_rank(1, files, tmp_path / "net-v1.5", strategies[8], strategies[4])
    assert report.files == {1: tmp_path / "net-v1.5.ckpt"}
    assert_same(read_slices(tmp_path / "net-v1.5.ckpt"), slices_of(WHOLE, LAYOUTS[4], 1))


def test_files_beside_the_sources_of_another_step_tell_nothing(eight: Path, tmp_path: Path, strategies) -> None:
    files = {rank: eight / f"rank_{rank}" / "net-1_7.ckpt" for rank in range(8)}
    write_slices(eight / "rank_5" / "net-1_8.ckpt", {"net.w1": numbers((3, 3))})
    transform_checkpoint_by_rank(2, files, tmp_path / "two.ckpt", strategies[8], strategies[4])
    assert_same(read_slices(tmp_path / "two.ckpt"), slices_of(WHOLE, LAYOUTS[4], 2))


def test_a_largest_slice_for_which_there_is_no_memory_is_told(
    eight: Path, tmp_path: Path, strategies, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(target_slices, "np", SimpleNamespace(empty=refuse, uint8=np.uint8))
    # A quarter of 64 x 32 numbers of 4 bytes.
    with pytest.raises(CheckpointError, match="the largest slice has 2048 bytes, for which there is no memory; cut it"):
        transform_checkpoints(eight, tmp_path / "out", "net", strategies[8], strategies[4])


def test_a_process_that_ends_without_a_word_is_told_by_its_status(
    eight: Path, tmp_path: Path, strategies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    words = r"a process of process_num ended with 1 \(no message\); try fewer of them"
    with pytest.raises(TransformError, match=words):
        transform_checkpoints(eight, tmp_path / "out", "net", strategies[8], strategies[4], process_num=2)


def test_who_breaks_off_a_conversion_leaves_no_process_behind(
    eight: Path, tmp_path: Path, strategies, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    class Started(subprocess.Popen):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            started.append(self)

        def communicate(self, *arguments: Any, **named: Any) -> Any:
            raise KeyboardInterrupt

    sleeper = tmp_path / "sleeper"
    sleeper.write_text("#!/bin/sh\nexec sleep 600\n")
    sleeper.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(sleeper))
    monkeypatch.setattr(subprocess, "Popen", Started)
    with pytest.raises(KeyboardInterrupt):
        transform_checkpoints(eight, tmp_path / "out", "net", strategies[8], strategies[4], process_num=3)
    assert [process.returncode for process in started] == [-signal.SIGKILL] * 3
    for process in started:
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()
