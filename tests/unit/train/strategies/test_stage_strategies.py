"""Strategy files of stages are merged, convert checkpoints between any cuts, and cut networks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mpiparallel import (
    context,
    load_checkpoint,
    load_param_into_net,
    merge_pipeline_strategys,
    ops,
    transform_checkpoints,
)
from mpiparallel.communication.threads import run_world
from mpiparallel.context.settings import all_settings, take_settings
from mpiparallel.errors import StrategyFileError
from mpiparallel.train import ModelCheckpoint
from tests.unit.train.staged_networks import ROWS, Case, Losses, make_model, rows

ALONE = Case(stages=(0,) * 6, micro_size=0, tied=True)
SHARDS = {"enable_parallel_optimizer": True, "parallel_optimizer_config": {"parallel_optimizer_threshold": 0}}
CASES = {
    "2 stages, cut": (4, Case(tied=True, cut=2)),
    "2 stages": (2, Case(tied=True)),
    "3 stages": (3, Case(tied=True, stages=(0, 0, 1, 1, 2, 2))),
    "2 stages, shards": (4, Case(tied=True, settings=SHARDS)),
    "2 ranks, cut": (2, replace(ALONE, cut=2, settings={"enable_parallel_optimizer": False})),
    "1 device": (1, ALONE),
}


def run(name: str, job, *given):
    ranks, case = CASES[name]
    before = all_settings()
    try:
        return run_world(ranks, job, case, *given, overlaps=bool(case.settings))
    finally:
        take_settings(before)


def made(case: Case, communicator, folder: Path):
    folder.mkdir(parents=True, exist_ok=True)
    model, _ = make_model(case)
    if communicator.size > 1:
        context.set_auto_parallel_context(strategy_ckpt_save_file=str(folder / f"strategy{communicator.rank}.ckpt"))
    return model


def train_and_save(communicator, case: Case, folder: Path) -> list[float]:
    """Train, save, and train on; return the losses of that."""
    model = made(case, communicator, folder / "strategies")
    model.train(1, rows(ROWS * 3), ModelCheckpoint("p", folder / "saved"), dataset_sink_mode=False)
    losses = Losses()
    model.train(1, rows(ROWS * 2), losses, dataset_sink_mode=False)
    return losses.found


def build(communicator, case: Case, folder: Path) -> None:
    made(case, communicator, folder).build(rows(ROWS * 2))


def go_on(communicator, case: Case, folder: Path) -> list[float]:
    model, _ = make_model(case)
    model.build(rows(ROWS * 2))
    left = load_param_into_net(
        model.train_network, load_checkpoint(str(folder / f"rank_{communicator.rank}" / f"at{communicator.rank}.ckpt"))
    )[1]
    assert not left
    losses = Losses()
    model.train(1, rows(ROWS * 2), losses, dataset_sink_mode=False)
    return losses.found


def strategy_of(name: str, folder: Path) -> str | None:
    if CASES[name][0] == 1:
        return None
    if "stages" not in name:
        return str(folder / "strategy0.ckpt")
    merge_pipeline_strategys(folder, folder.parent / f"{folder.name}.ckpt")
    return str(folder.parent / f"{folder.name}.ckpt")


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("2 stages, cut", "2 ranks, cut"),
        ("2 ranks, cut", "3 stages"),
        ("3 stages", "2 stages, shards"),
        ("2 stages, shards", "1 device"),
        ("1 device", "2 stages, cut"),
    ],
)
def test_converted_checkpoints_go_on_with_the_losses_of_the_training(source: str, target: str, tmp_path: Path) -> None:
    wanted = run(source, train_and_save, tmp_path)[0]
    run(target, build, tmp_path / "target")
    strategies = strategy_of(source, tmp_path / "strategies"), strategy_of(target, tmp_path / "target")
    transform_checkpoints(str(tmp_path / "saved"), str(tmp_path / "converted"), "at", *strategies)
    for losses in run(target, go_on, tmp_path / "converted"):
        np.testing.assert_allclose(losses, wanted, rtol=0, atol=1e-9)


def shards_of(communicator, case: Case, file: str):
    context.set_auto_parallel_context(strategy_ckpt_load_file=file)
    model, network = make_model(case)
    for block in network.blocks:
        block.into, block.out = ops.MatMul(), ops.MatMul()
    model.build(rows(ROWS))
    return {one.name: one.box for one in network.get_parameters() if not one.is_elsewhere}


def test_a_merged_file_cuts_each_stage_as_it_was(tmp_path: Path) -> None:
    run("2 stages, cut", build, tmp_path / "saved")
    whole = strategy_of("2 stages, cut", tmp_path / "saved")
    found = run("2 stages, cut", shards_of, whole)
    assert found[1]["blocks.0.first"].start == (0, 8)
    assert found[3]["blocks.3.second"].start == (8, 0)


def test_a_file_of_a_training_in_one_stage_is_refused_in_two(tmp_path: Path) -> None:
    run("2 ranks, cut", build, tmp_path)
    said = (
        r'strategy0\.ckpt: parameter "blocks\.0\.first": it is laid out on 2 devices in the file, '
        "but its stage is on 1; use the file of a training in the same stages"
    )
    with pytest.raises(StrategyFileError, match=said):
        run("2 stages", shards_of, str(tmp_path / "strategy0.ckpt"))
