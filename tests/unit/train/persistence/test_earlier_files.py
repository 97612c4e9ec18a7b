"""Checkpoints, strategy and group files of an earlier version: loaded, resumed and moved to the same bits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import context
from mpiparallel.checkpoint.strategy.group_file import read_group_info
from mpiparallel.checkpoint.strategy.strategy_file import read_strategy
from mpiparallel.communication.threads import run_world
from tests.conformance.trainings.earlier_training import (
    CUTS,
    MOMENTUM,
    RANKS,
    RATE,
    SHARE,
    W1,
    W2,
    Cut,
    Losses,
    X,
    Y,
    batch,
    model_of,
    stage_records,
)

FOLDER = Path(__file__).parents[3] / "fixtures" / "earlier"
LOSSES = json.loads((FOLDER / "losses.json").read_text())["losses"]
MOVED = {"two_dims": CUTS["dim_0"], "dim_0": CUTS["uneven"]}
"""The cut to which a training is moved, where that is not two dims."""


@pytest.fixture(autouse=True)
def _reset():
    yield
    context.reset_auto_parallel_context()


def by_numpy(steps: int) -> tuple[list[float], dict[str, np.ndarray]]:
    """Return the losses of some steps, and the state after them."""
    state = {"w1": W1, "w2": W2, "moments.w1": np.zeros_like(W1), "moments.w2": np.zeros_like(W2)}
    losses = []
    for _ in range(steps):
        hidden = X @ state["w1"]
        error = hidden @ state["w2"] - Y
        losses.append(float((error * error).sum() * SHARE))
        spread = 2 * SHARE * error
        for name, gradient in {"w1": X.T @ (spread @ state["w2"].T), "w2": hidden.T @ spread}.items():
            moments = state[f"moments.{name}"] * MOMENTUM + gradient
            state |= {f"moments.{name}": moments, name: state[name] - RATE * moments}
    return losses, state


def check_state(model, steps: int) -> None:
    """Hold what this rank has to its part of what NumPy says, bit by bit."""
    held = {one.name: one for one in model.train_network.get_parameters()}
    for name, whole in by_numpy(steps)[1].items():
        box = held[name].box
        np.testing.assert_array_equal(held[name].asnumpy(), whole[tuple(map(slice, box.start, box.stop))], name)


def train_on(communicator, folder: Path, cut: Cut, moves_to: Cut | None):
    model, losses = model_of(cut), Losses()
    model.resume(str(folder), batch())
    check_state(model, 1)
    if moves_to is not None:
        model.reshard({"first": moves_to.first, "second": moves_to.second})
        check_state(model, 1)
    model.train(2, batch(), [losses], dataset_sink_mode=False)
    check_state(model, 2)
    return losses.by_step


@pytest.fixture(params=CUTS)
def saved(request, tmp_path):
    """The name of a cut, and a copy of the checkpoint that has it."""
    return request.param, Path(shutil.copytree(FOLDER / request.param / "checkpoint", tmp_path / "checkpoint"))


def wanted(name: str) -> list[dict[int, float]]:
    """Return the loss of the step after the checkpoint, which NumPy and the earlier version agree on."""
    assert list(LOSSES[name].values()) == by_numpy(2)[0]
    return [{2: LOSSES[name]["2"]}]


def test_a_training_that_an_earlier_version_saved_goes_on(saved) -> None:
    name, folder = saved
    assert run_world(RANKS, train_on, folder, CUTS[name], None) == wanted(name) * RANKS


def test_it_is_loaded_on_other_ranks_by_another_cut(saved) -> None:
    name, folder = saved
    assert run_world(3, train_on, folder, Cut(((1, 1), (1, 3)), ((1, 3), (3, 1))), None) == wanted(name) * 3


def test_what_is_loaded_is_cut_otherwise_while_it_is_held(saved) -> None:
    name, folder = saved
    moves_to = MOVED.get(name, CUTS["two_dims"])
    assert run_world(RANKS, train_on, folder, CUTS[name], moves_to) == wanted(name) * RANKS


@pytest.mark.parametrize("suffix", [".ckpt", ".json"])
@pytest.mark.parametrize("name", CUTS)
def test_strategy_files_of_an_earlier_version_cut_a_network_and_are_written_alike(name, suffix, tmp_path) -> None:
    theirs, ours = FOLDER / name / f"strategy{suffix}", tmp_path / f"strategy{suffix}"
    files = {"strategy_ckpt_load_file": str(theirs), "strategy_ckpt_save_file": str(ours)}
    alone = {"device_num": RANKS, "global_rank": 0}
    loaded = model_of(Cut(settings=CUTS[name].settings), **files, **alone).build(batch())
    given = model_of(CUTS[name], **alone).build(batch())
    assert loaded.stored == given.stored
    assert read_strategy(ours) == read_strategy(theirs)


@pytest.mark.parametrize("name", CUTS)
def test_group_files_of_an_earlier_version_are_read_and_written_alike(name, tmp_path) -> None:
    for rank in range(RANKS):
        theirs, ours = FOLDER / name / f"group_info_{rank}.pb", tmp_path / f"group_info_{rank}.pb"
        place = {"device_num": RANKS, "global_rank": rank}
        model_of(CUTS[name], group_ckpt_save_file=str(ours), **place).build(batch())
        assert read_group_info(ours) == read_group_info(theirs)
        assert ours.with_suffix(".parameters.json").read_bytes() == theirs.with_suffix(".parameters.json").read_bytes()


def test_strategy_files_of_stages_are_read_and_merged_alike(tmp_path) -> None:
    for name, record in stage_records().items():
        read = read_strategy(FOLDER / "stages" / name)
        assert read.strategies == record.strategies
        assert read.resolve({"w1": W1.shape, "w2": W2.shape, "moments.w1": W1.shape}) == record.resolve({})
    ms.merge_pipeline_strategys(str(FOLDER / "stages"), str(tmp_path / "merged.ckpt"))
    assert (tmp_path / "merged.ckpt").read_bytes() == (FOLDER / "merged.ckpt").read_bytes()
