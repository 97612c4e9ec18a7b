from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpiparallel.checkpoint.strategy.merged_stages import merge_pipeline_strategys
from mpiparallel.checkpoint.transform.checkpoints import transform_checkpoint_by_rank, transform_checkpoints
from mpiparallel.checkpoint.transform.rank_list import rank_list_for_transform
from mpiparallel.errors import TransformError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.unit.checkpoint.transform.stored_slices import (
    assert_same,
    numbers,
    read_slices,
    slices_of,
    write_layouts,
    write_slices,
)


def pipeline(tmp_path: Path, suffix: str = "ckpt") -> tuple[Path, Path, dict[str, NDArray[Any]]]:
    """Write 2 stages x 4 ranks: names with "-", a parameter on both stages; return folder, merged strategy, whole."""
    folder, strategies = tmp_path / "pipeline", tmp_path / "strategies"
    strategies.mkdir()
    stages = []
    for stage in (0, 1):
        devices = DeviceMatrix((2, 2))
        stages.append(
            {
                f"enc-dec.w{stage}": Layout((8, 6), devices, ((0,), (1,))),
                f"moments.enc-dec.w{stage}": Layout((8, 6), devices, ((0,), (1,)) if stage else ((), (0, 1))[:2]),
                "tied-embedding": Layout((10, 4), devices, ((0,), ()) if stage == 0 else ((), (1,))),
            }
        )
    whole = {
        name: numbers(layout.global_shape, start=100 * i)
        for i, (name, layout) in enumerate((stages[0] | stages[1]).items())
    }
    whole["learning_rate"] = np.array(0.5, np.float32)
    for rank in range(8):
        stage = rank // 4
        write_layouts(strategies / f"src_strategy{rank}.{suffix}", stages[stage], stage)
        own = {name: whole[name] for name in stages[stage]} | {"learning_rate": whole["learning_rate"]}
        write_slices(folder / f"rank_{rank}" / "net-1_7.ckpt", slices_of(own, stages[stage], rank % 4))
    merge_pipeline_strategys(strategies, tmp_path / f"merged.{suffix}")
    return folder, tmp_path / f"merged.{suffix}", whole


@pytest.mark.parametrize("suffix", ["ckpt", "json"])
def test_two_stages_of_four_ranks_merged_become_four_ranks(tmp_path: Path, suffix: str) -> None:
    folder, merged, whole = pipeline(tmp_path, suffix)
    devices = DeviceMatrix((4,))
    target = {name: Layout(array.shape, devices, ((), (0,))) for name, array in whole.items() if array.ndim == 2}
    strategy = write_layouts(tmp_path / f"target.{suffix}", target)
    report = transform_checkpoints(folder, tmp_path / "out", "net", merged, strategy, compare_replicas=True)
    for rank in range(4):
        assert_same(read_slices(report.files[rank]), slices_of(whole, target, rank))
    needed = rank_list_for_transform(0, merged, strategy)
    assert needed[0] > 3 > needed[-1], "each stage has a rank in it"
    files = {rank: folder / f"rank_{rank}" / "net-1_7.ckpt" for rank in needed}
    transform_checkpoint_by_rank(0, files, tmp_path / "zero.ckpt", merged, strategy)
    assert_same(read_slices(tmp_path / "zero.ckpt"), slices_of(whole, target, 0))


def test_four_ranks_become_two_stages_each_with_its_own_parameters(tmp_path: Path) -> None:
    folder, merged, _ = pipeline(tmp_path)
    transform_checkpoints(folder, tmp_path / "whole", "net", merged)
    report = transform_checkpoints(tmp_path / "whole", tmp_path / "back", "net", None, merged)
    for rank in range(8):
        assert_same(read_slices(report.files[rank]), read_slices(folder / f"rank_{rank}" / "net-1_7.ckpt"))


def test_a_parameter_on_two_stages_is_read_from_the_other_where_the_first_has_lost_it(tmp_path: Path) -> None:
    folder, merged, whole = pipeline(tmp_path)
    for rank in range(8):
        path = folder / f"rank_{rank}" / "net-1_7.ckpt"
        arrays = {name: array for name, array in read_slices(path).items() if rank != 2 or name != "tied-embedding"}
        write_slices(path, arrays)
    write_slices(
        folder / "rank_3" / "net-1_7.ckpt",
        {n: a for n, a in read_slices(folder / "rank_3" / "net-1_7.ckpt").items() if n != "tied-embedding"},
    )
    report = transform_checkpoints(folder, tmp_path / "out", "net", merged)
    assert_same(read_slices(report.files[0]), whole)


def test_copies_on_two_stages_are_compared(tmp_path: Path) -> None:
    folder, merged, _ = pipeline(tmp_path)
    arrays = read_slices(folder / "rank_5" / "net-1_7.ckpt")
    arrays["tied-embedding"] = arrays["tied-embedding"] + 1
    write_slices(folder / "rank_5" / "net-1_7.ckpt", arrays)
    with pytest.raises(TransformError, match=r'"tied-embedding" of rank 5 and of rank 0'):
        transform_checkpoints(folder, tmp_path / "out", "net", merged, compare_replicas=True)


def test_a_parameter_in_the_files_of_another_stage_than_the_strategy_says_is_refused(tmp_path: Path) -> None:
    folder, merged, _ = pipeline(tmp_path)
    for rank in range(8):
        path = folder / f"rank_{rank}" / "net-1_7.ckpt"
        arrays = {name: array for name, array in read_slices(path).items() if name != "enc-dec.w1"}
        write_slices(path, arrays | ({"enc-dec.w1": numbers((4, 3))} if rank < 4 else {}))
    words = r'parameter "enc-dec.w1": is on ranks 0, 1, 2, 3, but the source strategy has it on another pipeline stage'
    with pytest.raises(TransformError, match=words):
        transform_checkpoints(folder, tmp_path / "out", "net", merged)


def test_a_parameter_of_two_stages_must_have_one_shape(tmp_path: Path) -> None:
    folder, merged, _ = pipeline(tmp_path)
    for rank in range(4, 8):
        path = folder / f"rank_{rank}" / "net-1_7.ckpt"
        write_slices(path, read_slices(path) | {"tied-embedding": numbers((12, 2))})
    words = r'"tied-embedding": has the shapes \[\(10, 4\), \(12, 4\)\] on its pipeline stages; give the files'
    with pytest.raises(TransformError, match=words):
        transform_checkpoints(folder, tmp_path / "out", "net", merged)
