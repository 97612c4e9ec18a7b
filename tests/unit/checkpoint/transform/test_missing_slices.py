from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from mpiparallel.checkpoint.transform.checkpoints import transform_checkpoint_by_rank, transform_checkpoints
from mpiparallel.checkpoint.transform.rank_list import rank_list_for_transform
from mpiparallel.errors import TransformError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.unit.checkpoint.transform.perceptron import LAYOUTS, WHOLE, assert_folder, mlp
from tests.unit.checkpoint.transform.stored_slices import (
    assert_same,
    numbers,
    read_slices,
    slices_of,
    write_layouts,
    write_slices,
    write_state,
)

REPLICATED = mlp((2, 4), (), (1,))


@pytest.fixture
def replicated(tmp_path: Path) -> tuple[Path, Path]:
    write_state(tmp_path / "replicated", WHOLE, REPLICATED, 8)
    return tmp_path / "replicated", write_layouts(tmp_path / "replicated.ckpt", REPLICATED)


def test_a_missing_rank_and_a_damaged_one_are_replaced_by_their_replicas_and_reported(
    replicated: tuple[Path, Path], tmp_path: Path, strategies
) -> None:
    folder, strategy = replicated
    shutil.rmtree(folder / "rank_2")
    (folder / "rank_4" / "net-1_7.ckpt").write_bytes(b"\x0a\xff")
    report = transform_checkpoints(folder, tmp_path / "out", "net", strategy, strategies[4])
    assert_folder(tmp_path / "out", "net", 4)
    assert sorted(report.replaced) == [2, 4]
    assert report.replaced[2] == "there is no file of it (read from rank 6)"
    assert report.replaced[4].endswith("(read from rank 0)")
    assert "rank 2: there is no file of it" in str(report)


def test_by_rank_takes_the_replica_that_is_given(replicated: tuple[Path, Path], tmp_path: Path, strategies) -> None:
    folder, strategy = replicated
    files = {6: folder / "rank_6" / "net-1_7.ckpt"}
    transform_checkpoint_by_rank(2, files, tmp_path / "two.ckpt", strategy, strategies[4])
    assert_same(read_slices(tmp_path / "two.ckpt"), slices_of(WHOLE, LAYOUTS[4], 2))


def test_without_any_replica_the_parameters_and_ranks_are_told_and_nothing_is_written(
    replicated: tuple[Path, Path], tmp_path: Path, strategies
) -> None:
    folder, strategy = replicated
    shutil.rmtree(folder / "rank_2")
    shutil.rmtree(folder / "rank_6")
    with pytest.raises(
        ValueError, match=r'rank 2\'s checkpoint cannot be made.*"net.w1": rank 2 or 6; .*no file of it'
    ):
        transform_checkpoints(folder, tmp_path / "out", "net", strategy, strategies[4])
    assert not (tmp_path / "out").exists()


def test_copies_that_differ_are_refused_when_they_are_compared(
    replicated: tuple[Path, Path], tmp_path: Path, strategies
) -> None:
    folder, strategy = replicated
    arrays = slices_of(WHOLE, REPLICATED, 6)
    arrays["moments.net.w2"] = arrays["moments.net.w2"] + 1
    write_slices(folder / "rank_6" / "net-1_7.ckpt", arrays)
    with pytest.raises(TransformError, match=r'"moments.net.w2" of rank 6 and of rank 2: the copies of a slice differ'):
        transform_checkpoints(folder, tmp_path / "out", "net", strategy, strategies[4], compare_replicas=True)
    transform_checkpoints(folder, tmp_path / "out", "net", strategy, strategies[4])
    assert_folder(tmp_path / "out", "net", 4)
    files = {rank: folder / f"rank_{rank}" / "net-1_7.ckpt" for rank in range(8)}
    one = tmp_path / "one.ckpt"
    with pytest.raises(TransformError, match="the copies of a slice differ"):
        transform_checkpoint_by_rank(2, files, one, strategy, strategies[4], compare_replicas=True)
    transform_checkpoint_by_rank(2, files, one, strategy, strategies[4])
    assert_same(read_slices(one), slices_of(WHOLE, LAYOUTS[4], 2))


def test_of_many_copies_that_differ_eight_are_named_and_the_others_counted(
    replicated: tuple[Path, Path], tmp_path: Path, strategies
) -> None:
    folder, strategy = replicated
    for rank in (4, 5, 6, 7):
        arrays = slices_of(WHOLE, REPLICATED, rank)
        changed = {name: arrays[name] + 1 for name in REPLICATED}
        write_slices(folder / f"rank_{rank}" / "net-1_7.ckpt", arrays | changed)
    with pytest.raises(TransformError) as caught:
        transform_checkpoints(folder, tmp_path / "out", "net", strategy, strategies[4], compare_replicas=True)
    assert str(caught.value).count(" and of rank ") == 8
    assert f" and {4 * len(changed) - 8} more: the copies of a slice differ" in str(caught.value)


def test_what_ranks_have_of_their_own_is_refused_unless_the_first_is_wanted(
    eight: Path, tmp_path: Path, strategies
) -> None:
    write_slices(
        eight / "rank_5" / "net-1_7.ckpt",
        {**slices_of(WHOLE, LAYOUTS[8], 5), "learning_rate": np.array(0.2, np.float32)},
    )
    with pytest.raises(TransformError, match=r'"learning_rate" of rank 5 and of rank 0: no source strategy names it'):
        transform_checkpoints(eight, tmp_path / "out", "net", strategies[8], strategies[4])
    transform_checkpoints(eight, tmp_path / "out", "net", strategies[8], strategies[4], missing="replicated")
    assert_folder(tmp_path / "out", "net", 4)


@pytest.fixture
def statistics(tmp_path: Path) -> Path:
    """Eight ranks with an array that no strategy names, as MindSpore's names no running mean; on all the same."""
    for rank in range(8):
        arrays = {**slices_of(WHOLE, LAYOUTS[8], rank), "bn.moving_mean": numbers((16,))}
        write_slices(tmp_path / "statistics" / f"rank_{rank}" / "net-1_7.ckpt", arrays)
    return tmp_path / "statistics"


def test_an_array_that_no_strategy_names_is_taken_as_replicated_where_all_files_have_the_same(
    statistics: Path, tmp_path: Path, strategies
) -> None:
    report = transform_checkpoints(statistics, tmp_path / "out", "net", strategies[8], strategies[4])
    assert "bn.moving_mean" in report.replicated
    assert read_slices(report.files[3])["bn.moving_mean"].tobytes() == numbers((16,)).tobytes()


@pytest.mark.parametrize(("ranks", "told"), [(1, ()), (2, ("bn.moving_mean",))])
def test_an_array_that_no_strategy_names_is_told_where_several_ranks_have_it(
    ranks: int, told: tuple[str, ...], tmp_path: Path
) -> None:
    layouts = {"w": Layout((4, 6), DeviceMatrix((ranks,)), ((0,), ()))}
    for rank in range(ranks):
        arrays = {"w": numbers((4 // ranks, 6)), "bn.moving_mean": numbers((16,))}
        write_slices(tmp_path / "in" / f"rank_{rank}" / "net-1_7.ckpt", arrays)
    source = write_layouts(tmp_path / "in.ckpt", layouts)
    assert transform_checkpoints(tmp_path / "in", tmp_path / "out", "net", source, None).replicated == told


def test_one_copy_of_an_array_that_no_strategy_names_may_be_a_slice(tmp_path: Path, strategies) -> None:
    path = tmp_path / "rank_0" / "net-1_7.ckpt"
    write_slices(path, {**slices_of(WHOLE, LAYOUTS[4], 0), "bn.moving_mean": numbers((16,))})
    assert rank_list_for_transform(0, strategies[4], strategies[8]) == [0]
    with pytest.raises(TransformError, match="so whether it is a slice is not known"):
        transform_checkpoint_by_rank(0, {0: path}, tmp_path / "x.ckpt", strategies[4], strategies[8])
    transform_checkpoint_by_rank(0, {0: path}, tmp_path / "x.ckpt", strategies[4], strategies[8], missing="replicated")
    expected = {**slices_of(WHOLE, LAYOUTS[8], 0), "bn.moving_mean": numbers((16,))}
    assert_same(read_slices(tmp_path / "x.ckpt"), expected)


def test_a_cut_parameter_that_the_target_does_not_name_is_refused_replicated_or_omitted(
    eight: Path, tmp_path: Path
) -> None:
    inference = {name: layout for name, layout in LAYOUTS[4].items() if not name.startswith("moments")}
    source, target = write_layouts(tmp_path / "s.ckpt", LAYOUTS[8]), write_layouts(tmp_path / "t.ckpt", inference)
    with pytest.raises(TransformError, match=r'"moments.net.w1", "moments.net.w2": .*target strategy has it not'):
        transform_checkpoints(eight, tmp_path / "out", "net", source, target)
    transform_checkpoints(eight, tmp_path / "whole", "net", source, target, missing="replicated")
    report = transform_checkpoints(eight, tmp_path / "less", "net", source, target, missing="omitted")
    assert report.omitted == ("moments.net.w1", "moments.net.w2")
    for rank in range(4):
        expected = slices_of(WHOLE, inference, rank)
        assert_same(read_slices(tmp_path / "whole" / f"rank_{rank}" / f"net{rank}.ckpt"), expected)
        for name in report.omitted:
            del expected[name]
        assert_same(read_slices(tmp_path / "less" / f"rank_{rank}" / f"net{rank}.ckpt"), expected)


@pytest.mark.parametrize(("shape", "is_taken"), [((), True), ((1,), True), ((1, 1), True), ((2,), False)])
def test_one_copy_of_one_element_is_no_slice_and_goes_to_every_rank(
    shape: tuple[int, ...], is_taken: bool, tmp_path: Path
) -> None:
    rows = write_layouts(tmp_path / "rows.ckpt", {"w": Layout((4,), DeviceMatrix((2,)), ((0,),))})
    for rank in range(2):
        arrays = {"w": numbers((2,), start=2 * rank), **({"step": np.full(shape, 7.0)} if rank else {})}
        write_slices(tmp_path / "in" / f"rank_{rank}" / "net-1_7.ckpt", arrays)
    if is_taken:
        report = transform_checkpoints(tmp_path / "in", tmp_path / "out", "net", rows, rows)
        assert report.replicated == ("step",)
        for rank in range(2):
            expected = {"w": numbers((2,), start=2 * rank), "step": np.full(shape, 7.0)}
            assert_same(read_slices(report.files[rank]), expected)
        return
    with pytest.raises(TransformError) as caught:
        transform_checkpoints(tmp_path / "in", tmp_path / "out", "net", rows, rows)
    assert str(caught.value) == (
        'parameter "step": is in no source strategy, and only the file of rank 1 has it, so whether it is a slice is '
        'not known; give the src_strategy_file that names it, the files of all ranks, or missing="replicated" to take '
        "the first copy"
    )
