from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel.checkpoint.strategy.strategy_file import write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import LayoutItem, StrategyRecord
from mpiparallel.checkpoint.transform.checkpoints import transform_checkpoint_by_rank, transform_checkpoints
from mpiparallel.checkpoint.transform.rank_list import rank_list_for_transform
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import TransformError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.conformance.mpi4py_ranks import mpi4py_ranks
from tests.unit.checkpoint.transform.perceptron import LAYOUTS, WHOLE, assert_folder
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


def test_genuine_source_becomes_the_genuine_target_bit_for_bit(tmp_path: Path) -> None:
    report = transform_checkpoints(
        GENUINE / "src_checkpoints", tmp_path, "transformed", GENUINE_SOURCE, GENUINE_TARGET, compare_replicas=True
    )
    assert sorted(report.replicated) == ["global_step", "learning_rate", "momentum"]
    for rank in range(4):
        theirs = read_slices(GENUINE / "dst_checkpoints" / f"rank_{rank}" / f"transformed{rank}.ckpt")
        assert_same(read_slices(report.files[rank]), theirs)


def test_genuine_source_becomes_the_genuine_whole_and_back(tmp_path: Path) -> None:
    transform_checkpoints(GENUINE / "src_checkpoints", tmp_path / "whole", "whole", GENUINE_SOURCE)
    assert_same(
        read_slices(tmp_path / "whole" / "rank_0" / "whole0.ckpt"), read_slices(GENUINE / "full/rank_0/full.ckpt")
    )
    transform_checkpoints(tmp_path / "whole", tmp_path / "back", "src_checkpoint", None, GENUINE_SOURCE)
    for rank in range(8):
        path = Path(f"rank_{rank}") / f"src_checkpoint{rank}.ckpt"
        assert_same(read_slices(tmp_path / "back" / path), read_slices(GENUINE / "src_checkpoints" / path))


def test_genuine_target_rank_is_made_from_the_files_that_mindspore_asks_for(tmp_path: Path) -> None:
    for rank, sources in {0: [4, 0], 1: [5, 1], 2: [6, 2], 3: [7, 3]}.items():
        assert rank_list_for_transform(rank, GENUINE_SOURCE, GENUINE_TARGET) == sources
        files = {
            source: GENUINE / "src_checkpoints" / f"rank_{source}" / f"src_checkpoint{source}.ckpt"
            for source in sources
        }
        transform_checkpoint_by_rank(rank, files, tmp_path / f"dst{rank}.ckpt", GENUINE_SOURCE, GENUINE_TARGET)
        theirs = read_slices(GENUINE / "dst_checkpoints" / f"rank_{rank}" / f"transformed{rank}.ckpt")
        assert_same(read_slices(tmp_path / f"dst{rank}.ckpt"), theirs)


def test_counts_and_cuts_that_mindspore_refuses_are_converted(tmp_path: Path, strategies) -> None:
    """Eight ranks to six, and six rows that two ranks have to four, which MindSpore 2.10 cannot."""
    full = read_slices(GENUINE / "full" / "rank_0" / "full.ckpt")
    report = transform_checkpoints(GENUINE / "src_checkpoints", tmp_path / "6", "net", GENUINE_SOURCE, strategies[6])
    for rank in range(6):
        assert_same(read_slices(report.files[rank]), slices_of(full, LAYOUTS[6], rank))
    two, four = ({"w": Layout((6, 3), DeviceMatrix((ranks,)), ((0,), ()))} for ranks in (2, 4))
    write_state(tmp_path / "2", {"w": numbers((6, 3))}, two, 2)
    files = write_layouts(tmp_path / "2.ckpt", two), write_layouts(tmp_path / "4.ckpt", four)
    report = transform_checkpoints(tmp_path / "2", tmp_path / "4", "net", *files)
    assert [len(read_slices(report.files[rank])["w"]) for rank in range(4)] == [2, 2, 1, 1]
    assert (
        np.concatenate([read_slices(report.files[rank])["w"] for rank in range(4)]).tobytes()
        == numbers((6, 3)).tobytes()
    )


def test_a_table_cut_by_the_users_own_bounds_is_converted_both_ways(tmp_path: Path) -> None:
    """MindSpore's ``manual_split``, whose bounds its own conversion ignores."""
    table = {"table": numbers((16, 3))}
    item = LayoutItem((3, 2), ((0,), ()), param_split_shape=(1, 7, 8), indices_offset=(0, 1, 8))
    write_strategy(tmp_path / "manual.ckpt", StrategyRecord({"table": item}, {}))
    for rank in range(6):
        part = np.split(table["table"], [1, 8])[rank // 2]
        write_slices(tmp_path / "manual" / f"rank_{rank}" / "net-1_7.ckpt", {"table": part})
    halves = {"table": Layout((16, 3), DeviceMatrix((2,)), ((0,), ()))}
    strategy = write_layouts(tmp_path / "halves.ckpt", halves)
    report = transform_checkpoints(tmp_path / "manual", tmp_path / "halves", "net", tmp_path / "manual.ckpt", strategy)
    for rank in range(2):
        assert_same(read_slices(report.files[rank]), slices_of(table, halves, rank))
    report = transform_checkpoints(tmp_path / "halves", tmp_path / "back", "net", strategy, tmp_path / "manual.ckpt")
    for rank in range(6):
        written = tmp_path / "manual" / f"rank_{rank}" / "net-1_7.ckpt"
        assert_same(read_slices(report.files[rank]), read_slices(written))


@pytest.mark.parametrize("format_name", ["ckpt", "h5", "safetensors", "npz"])
def test_8_to_4_to_6_to_1_to_64_ranks_is_numpy_slicing(
    tmp_path: Path, strategies: dict[int, Path | None], format_name: str
) -> None:
    suffix = f".{format_name}"
    write_state(tmp_path / "8", WHOLE, LAYOUTS[8], 8, f"net-1_7{suffix}")
    for source, target in [(8, 4), (4, 6), (6, 1), (1, 64)]:
        folders = tmp_path / str(source), tmp_path / str(target)
        transform_checkpoints(*folders, "net", strategies[source], strategies[target])
        assert_folder(folders[1], "net", target, suffix)


def test_a_format_becomes_another(eight: Path, tmp_path: Path, strategies: dict[int, Path | None]) -> None:
    transform_checkpoints(eight, tmp_path / "out", "net", strategies[8], strategies[4], output_format="h5")
    assert_folder(tmp_path / "out", "net", 4, ".h5")


def test_ranks_of_a_communicator_share_the_targets(eight: Path, tmp_path: Path, strategies) -> None:
    def part(world: Any) -> list[int]:
        report = transform_checkpoints(
            eight, tmp_path / "out", "net", strategies[8], strategies[64], compare_replicas=True, communicator=world
        )
        return list(report.files)

    assert run_world(3, part) == [list(range(rank, 64, 3)) for rank in range(3)]
    assert_folder(tmp_path / "out", "net", 64)


def test_ranks_of_mpi4py_share_the_targets_by_a_communicator_that_is_freed(
    eight: Path, tmp_path: Path, strategies, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = mpi4py_ranks(monkeypatch)

    def part(world: Any, source: Path) -> list[int]:
        ranks = library.of(world)
        report = transform_checkpoints(
            source, tmp_path / "out", "net", strategies[8], strategies[4], communicator=ranks
        )
        return list(report.files)

    assert run_world(2, part, eight) == [[0, 2], [1, 3]]
    assert library.freed == 2
    assert_folder(tmp_path / "out", "net", 4)
    with pytest.raises(TransformError, match="nowhere"):
        run_world(2, part, tmp_path / "nowhere")
    assert library.freed == 4


def test_processes_share_the_targets_and_tell_of_their_errors(eight: Path, tmp_path: Path, strategies) -> None:
    shutil.rmtree(eight / "rank_2")
    with pytest.raises(TransformError, match=r'"net\.w1": rank 2'):
        transform_checkpoints(eight, tmp_path / "out", "net", strategies[8], strategies[4], process_num=2)
    write_slices(eight / "rank_2" / "net-1_7.ckpt", slices_of(WHOLE, LAYOUTS[8], 2))
    report = transform_checkpoints(eight, tmp_path / "out", "net", strategies[8], strategies[4], process_num=2)
    assert list(report.files) == [0, 1, 2, 3]
    assert_folder(tmp_path / "out", "net", 4)


def test_slices_of_over_a_mebibyte_and_of_unlike_sizes_are_each_written_whole(tmp_path: Path) -> None:
    """They are read into the same memory one after the other, which must be as long as the longest."""
    whole = {"least": numbers((4, 70000)), "most": numbers((8, 150001)), "between": numbers((4, 100000), "float64")}
    layouts = {name: Layout(array.shape, DeviceMatrix((2,)), ((0,), ())) for name, array in whole.items()}
    write_state(tmp_path / "in", whole, layouts, 2)
    strategy = write_layouts(tmp_path / "s.ckpt", layouts)
    columns = {name: Layout(array.shape, DeviceMatrix((2,)), ((), (0,))) for name, array in whole.items()}
    transform_checkpoints(tmp_path / "in", tmp_path / "out", "net", strategy)
    assert_same(read_slices(tmp_path / "out" / "rank_0" / "net0.ckpt"), whole)
    transform_checkpoints(
        tmp_path / "in", tmp_path / "cut", "net", strategy, write_layouts(tmp_path / "t.ckpt", columns)
    )
    for rank in range(2):
        assert_same(read_slices(tmp_path / "cut" / f"rank_{rank}" / f"net{rank}.ckpt"), slices_of(whole, columns, rank))
