"""A checkpoint of a training in stages goes on with any stages, and without, as one device does."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from mpiparallel import load_checkpoint, ops, save_checkpoint
from mpiparallel.checkpoint.maintenance.shard_recovery import recover
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.communication.threads import run_world
from mpiparallel.context.settings import all_settings, take_settings
from mpiparallel.errors import ConfigurationError
from mpiparallel.train import CheckpointConfig, ModelCheckpoint
from tests.unit.train.staged_networks import ROWS, Case, Losses, make_model, rows

BASE = Case(dropout=0.25, tied=True)
ALONE = replace(BASE, stages=(0,) * 6, micro_size=0)
SHARDS = {"enable_parallel_optimizer": True, "parallel_optimizer_config": {"parallel_optimizer_threshold": 0}}
CASES = {
    "2 stages": (2, BASE),
    "2 stages of 2": (4, BASE),
    "2 stages of 2, cut": (4, replace(BASE, cut=2)),
    "2 stages of 2, shards": (4, replace(BASE, settings=SHARDS)),
    "stages of 4 and 2, shards": (6, replace(BASE, settings={**SHARDS, "pipeline_stages": [4, 2]})),
    "3 stages": (3, replace(BASE, stages=(0, 0, 1, 1, 2, 2))),
    "4 stages": (4, replace(BASE, stages=(0, 0, 1, 2, 3, 3), schedule={"pipeline_scheduler": "1f1b"})),
    "a V": (2, replace(BASE, stages=(0, 0, 1, 1, 0, 0), schedule={"pipeline_scheduler": "zb_v"})),
    "1 device": (1, ALONE),
    "2 ranks, cut": (2, replace(ALONE, cut=2, settings={"enable_parallel_optimizer": False})),
}


def job(communicator, case: Case, folder: Path, epochs: int, config: CheckpointConfig):
    """Go on to the end of so many epochs; return the losses, and this rank's boxes of what it holds."""
    model, network = make_model(case)
    losses, data = Losses(), rows(ROWS * 3)
    model.resume(folder, data)
    model.train(epochs, data, callbacks=[losses, ModelCheckpoint("p", folder, config)], dataset_sink_mode=False)
    parameters = [*network.get_parameters(), *model.train_network.optimizer.get_parameters()]
    held = {one.name: (one.box, one.asnumpy().copy()) for one in parameters if not one.is_elsewhere}
    return losses.found, held


def run(name: str, folder: Path, epochs: int, config: CheckpointConfig | None = None):
    ranks, case = CASES[name]
    before = all_settings()
    try:
        return run_world(ranks, job, case, folder, epochs, config or CheckpointConfig(2), overlaps=bool(case.settings))
    finally:
        take_settings(before)


@cache
def on_one_device(folder: Path):
    ((first, _),) = run("1 device", folder / "alone", 1)
    ((second, held),) = run("1 device", folder / "alone", 2)
    return first, second, {name: values for name, (_, values) in held.items()}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory):
    return on_one_device(tmp_path_factory.getbasetemp())


def check(found, expected) -> None:
    _, losses, weights = expected
    names: set[str] = set()
    for told, held in found:
        np.testing.assert_allclose(told, losses, rtol=0, atol=1e-9)
        names |= held.keys()
        for name, (box, values) in held.items():
            whole = weights[name]
            np.testing.assert_allclose(values, whole[box.within(type(box).whole(whole.shape))], rtol=0, atol=1e-9)
    assert names == weights.keys()


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("2 stages", "2 stages"),
        ("4 stages", "2 stages of 2, cut"),
        ("2 stages of 2, cut", "4 stages"),
        ("2 stages of 2, shards", "3 stages"),
        ("a V", "2 stages of 2, shards"),
        ("stages of 4 and 2, shards", "3 stages"),
        ("2 stages of 2", "stages of 4 and 2, shards"),
        ("3 stages", "1 device"),
        ("3 stages", "a V"),
        ("1 device", "3 stages"),
        ("2 ranks, cut", "2 stages"),
        ("2 stages", "2 ranks, cut"),
    ],
)
def test_it_goes_on_with_the_losses_and_weights_of_one_device(source, target, tmp_path, expected) -> None:
    for losses, _ in run(source, tmp_path / "saved", 1):
        np.testing.assert_allclose(losses, expected[0], rtol=0, atol=1e-9)
    check(run(target, tmp_path / "saved", 2), expected)


def test_with_the_same_stages_it_goes_on_to_the_bit(tmp_path) -> None:
    name = "2 stages of 2, shards"
    run(name, tmp_path / "broken", 1)
    once, again = run(name, tmp_path / "once", 2), run(name, tmp_path / "broken", 2)
    for (losses, held), (others, same) in zip(once, again, strict=True):
        assert losses[3:] == others
        assert {key: values.tobytes() for key, (_, values) in held.items()} == {
            key: values.tobytes() for key, (_, values) in same.items()
        }


def test_each_rank_writes_what_its_stage_holds_and_the_manifest_names_all(tmp_path) -> None:
    run("2 stages of 2, cut", tmp_path, 1)
    manifest = Manifest.load(tmp_path / "p-1_3.manifest.json")
    held = [set() if shard is None else {*shard.arrays} for shard in manifest.shards]
    assert held[0] == held[1]
    assert held[2] == held[3]
    assert "head.table" in held[0] & held[2]
    assert "blocks.1.first" in held[0] - held[2]
    assert "blocks.3.first" in held[2] - held[0]
    assert {*manifest.tensors} == held[0] | held[2]
    assert manifest.layouts["head.table"].replica_group(1) == (0, 1, 2, 3)
    assert [*manifest.layouts["blocks.3.first"].devices.members] == [2, 3]


@pytest.mark.parametrize("lost", [1, 2])
def test_a_replica_of_the_stage_stands_in_for_a_lost_shard_and_rebuilds_it(lost: int, tmp_path, expected) -> None:
    run("2 stages of 2", tmp_path / "saved", 1)
    shutil.copytree(tmp_path / "saved", tmp_path / "copy")
    shard = f"rank_{lost}/p-1_3.h5"
    (tmp_path / "saved" / shard).unlink()
    (tmp_path / "copy" / shard).write_bytes(b"damaged")
    check(run("3 stages", tmp_path / "copy", 2), expected)
    assert [one.rank for one in recover(tmp_path / "saved").rebuilt] == [lost]
    check(run("2 stages of 2", tmp_path / "saved", 2), expected)


@pytest.mark.parametrize("config", [CheckpointConfig(3, integrated_save=True), CheckpointConfig(3, async_save=True)])
def test_whole_weights_and_those_of_a_thread_go_on_elsewhere(config: CheckpointConfig, tmp_path, expected) -> None:
    run("3 stages", tmp_path, 1, config)
    check(run("2 stages of 2, cut", tmp_path, 2), expected)


def test_save_checkpoint_gathers_the_parameters_of_all_stages_or_saves_those_of_its_own(tmp_path) -> None:
    def saved(communicator):
        model, network = make_model(CASES["2 stages of 2, cut"][1])
        model.train(1, rows(ROWS), dataset_sink_mode=False)
        save_checkpoint(network, str(tmp_path / "whole.ckpt"))
        save_checkpoint(network, str(tmp_path / f"own{communicator.rank}.ckpt"), integrated_save=False)
        return {one.name: (one.box, one.asnumpy()) for one in network.get_parameters() if not one.is_elsewhere}

    found = run_world(4, saved)
    whole = load_checkpoint(str(tmp_path / "whole.ckpt"))
    assert whole.keys() == found[0].keys() | found[2].keys()
    for rank, held in enumerate(found):
        own = load_checkpoint(str(tmp_path / f"own{rank}.ckpt"))
        assert own.keys() == held.keys()
        for name, (box, values) in held.items():
            everything = whole[name].asnumpy()
            np.testing.assert_array_equal(everything[box.within(type(box).whole(everything.shape))], values)
            np.testing.assert_array_equal(own[name].asnumpy(), values)


def test_a_parameter_that_stages_cut_differently_is_refused_with_the_mend() -> None:
    def train(communicator) -> None:
        model, network = make_model(BASE)
        network.head.matmul = ops.MatMul(transpose_b=True).shard(((1, 1), (2, 1)))
        model.train(1, rows(ROWS), dataset_sink_mode=False)

    with pytest.raises(ConfigurationError, match=r"stage 1 cuts the parameter 'head.table' into"):
        run_world(4, train)
