from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel.checkpoint.saving import save_shards
from mpiparallel.communication.threads import run_world
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.unit.checkpoint.transform import tutorial_values as tutorial
from tests.unit.checkpoint.transform.stored_slices import (
    assert_same,
    read_slices,
    slices_of,
    write_layouts,
    write_slices,
)

SCRIPTS = Path(__file__).parents[4] / "examples" / "checkpoints"
GENUINE = Path(__file__).parents[3] / "fixtures" / "mindspore" / "e2e_8to4"


def run(monkeypatch: pytest.MonkeyPatch, name: str, *words: object) -> None:
    monkeypatch.setattr(sys, "argv", [name, *map(str, words)])
    runpy.run_path(str(SCRIPTS / name), run_name="__main__")


def test_integration_gives_the_moments_of_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The printed merged weight is not that of the printed slices, so it is held against their concatenation."""
    weight, moments = (
        np.array(printed, np.float32) for printed in (tutorial.SAVED_WEIGHT, tutorial.INTEGRATED_MOMENTS_WEIGHT)
    )
    saved = np.array(tutorial.SAVED_MOMENTS_WEIGHT, np.float32)
    scalars = {"learning_rate": np.array([0.01], np.float32), "momentum": np.array([0.9], np.float32)}
    for rank in range(4):
        rows = slice(2 * rank, 2 * rank + 2)
        arrays = {"weight": weight[rows], "moments.weight": saved[rows], **scalars}
        write_slices(tmp_path / f"node{rank}" / "CKP_1-4_32.ckpt", arrays)
    layout = Layout((8, 8), DeviceMatrix((4,)), ((0,), ()))
    write_layouts(tmp_path / "strategy_train.ckpt", {"weight": layout, "moments.weight": layout})
    monkeypatch.chdir(tmp_path)
    words = "CKP_1-4_32.ckpt", "CKP-Integrated_1-4_32.ckpt", "strategy_train.ckpt", 4
    run(monkeypatch, "integrate_checkpoint.py", *words)
    found = read_slices(tmp_path / "CKP-Integrated_1-4_32.ckpt")
    assert_same(found, {"weight": weight, "moments.weight": moments, **scalars})


def test_one_rank_is_made_from_the_files_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "--transform_rank",
        2,
        "--dst_checkpoints_dir",
        tmp_path,
        "--src_checkpoints_dir",
        GENUINE / "src_checkpoints",
    ]
    strategies = [
        "--src_strategy_file",
        GENUINE / "src_strategy.ckpt",
        "--dst_strategy_file",
        GENUINE / "dst_strategy.ckpt",
    ]
    run(monkeypatch, "transform_checkpoint_by_rank.py", *words, *strategies)
    made = tmp_path / "rank_2" / "dst_checkpoint2.ckpt"
    assert capsys.readouterr().out == f"{made} made from the files of ranks 6, 2\n"
    assert_same(read_slices(made), read_slices(GENUINE / "dst_checkpoints" / "rank_2" / "transformed2.ckpt"))


def test_one_rank_is_made_from_the_newest_of_the_shards_that_a_training_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {"w": np.arange(12.0).reshape(4, 3)}
    source = {"w": Layout((4, 3), DeviceMatrix((2,)), ((0,), ()))}
    target = {"w": Layout((4, 3), DeviceMatrix((3,)), ((), (0,)))}

    def part(world: Any) -> None:
        arrays = slices_of(whole, source, world.rank)
        save_shards(tmp_path / "saved", "net", 1, 1, {"w": -arrays["w"]}, source, world)
        save_shards(tmp_path / "saved", "net", 1, 2, arrays, source, world)

    run_world(2, part)
    words: list[object] = ["--transform_rank", 1, "--dst_checkpoints_dir", tmp_path / "made"]
    words += ["--src_checkpoints_dir", tmp_path / "saved"]
    words += ["--src_strategy_file", write_layouts(tmp_path / "source.ckpt", source)]
    words += ["--dst_strategy_file", write_layouts(tmp_path / "target.ckpt", target)]
    run(monkeypatch, "transform_checkpoint_by_rank.py", *words)
    assert_same(read_slices(tmp_path / "made" / "rank_1" / "dst_checkpoint1.ckpt"), {"w": whole["w"][:, 1:2]})
