"""Checkpoints that real ranks convert or load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mpiparallel.checkpoint.files.array_file import read_array
from mpiparallel.checkpoint.formats.registry import open_file
from tests.mpi.checkpoint.any_checkpoint_ranks import CASES

pytestmark = pytest.mark.mpi

GENUINE = Path(__file__).parents[2] / "fixtures" / "mindspore" / "e2e_8to4"


def test_ranks_share_the_targets_of_a_conversion(mpi_run, tmp_path: Path) -> None:
    output = mpi_run(3, "tests.mpi.checkpoint.transform_ranks", GENUINE, tmp_path)
    for rank, made in enumerate(("[0, 3]", "[1]", "[2]")):
        assert output.count(f"rank {rank} made {made}\n") == 2
    for name in ("theirs", "ours"):
        for rank in range(4):
            path = Path(f"rank_{rank}") / f"transformed{rank}.ckpt"
            with open_file(tmp_path / name / path) as made, open_file(GENUINE / "dst_checkpoints" / path) as wanted:
                assert made.arrays == wanted.arrays
                for array in made.arrays:
                    assert read_array(made, array).tobytes() == read_array(wanted, array).tobytes()


def test_the_example_converts_a_folder(mpi_run, pytestconfig: pytest.Config, tmp_path: Path) -> None:
    words = [
        *("--src_checkpoints_dir", GENUINE / "dst_checkpoints", "--dst_checkpoints_dir", tmp_path / "out"),
        *("--src_strategy_file", GENUINE / "dst_strategy.ckpt", "--dst_strategy_file", GENUINE / "src_strategy.ckpt"),
    ]
    output = mpi_run(2, pytestconfig.rootpath / "examples/checkpoints/transform_checkpoint_dir.py", *words)
    assert "rank 1: 4 files written" in output
    for rank in range(8):
        written = GENUINE / "src_checkpoints" / f"rank_{rank}" / f"src_checkpoint{rank}.ckpt"
        with open_file(tmp_path / f"out/rank_{rank}/transformed{rank}.ckpt") as made, open_file(written) as wanted:
            assert {name: read_array(made, name).tobytes() for name in made.arrays} == {
                name: read_array(wanted, name).tobytes() for name in wanted.arrays
            }


RANKS = 6


@pytest.mark.sample
def test_any_checkpoint_is_loaded_by_any_layout_on_mpi_ranks(mpi_run: Callable[..., str], tmp_path: Path) -> None:
    output = mpi_run(RANKS, "tests.mpi.checkpoint.any_checkpoint_ranks", tmp_path)
    for rank in range(RANKS):
        assert f"rank {rank} loads what NumPy slices of {CASES} checkpoints" in output
