"""What was each rank's own in data parallel is that of the first rank in the stages that go on with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.train import ModelCheckpoint
from tests.unit.train.staged_networks import ROWS, Case, columns, held_boxes, make_model, rows

STAGES = Case(normed=True)
OWN = {"parallel_mode": "data_parallel", "full_batch": False, "gradients_mean": True}
DATA = replace(STAGES, stages=(0,) * 6, micro_size=0, settings=OWN)


def trained(communicator, folder: Path) -> dict[str, Any]:
    model, network = make_model(DATA)
    own = [column[communicator.rank :: communicator.size] for column in columns(ROWS * 4)]
    data = NumpySlicesDataset(tuple(own), ["words", "labels"], shuffle=False).batch(ROWS)
    model.train(1, data, ModelCheckpoint("p", folder), dataset_sink_mode=False)
    return {one.name: one.asnumpy().copy() for one in network.get_parameters() if "moving" in one.name}


def resumed(_communicator, folder: Path) -> dict[str, Any]:
    model, network = make_model(STAGES)
    assert model.resume(folder, rows(ROWS * 2), strict=False) is not None
    return {name: found for name, (_, found) in held_boxes(model, network).items() if "moving" in name}


def test_each_stage_goes_on_with_the_statistics_of_the_first_rank_for_its_own_layers(tmp_path: Path) -> None:
    first, second = run_world(2, trained, tmp_path)
    assert all(not np.array_equal(first[name], second[name]) for name in first)
    found = run_world(2, resumed, tmp_path)
    assert found[0].keys().isdisjoint(found[1])
    held = {name: value for of_stage in found for name, value in of_stage.items()}
    assert held.keys() == first.keys()
    for name, value in held.items():
        np.testing.assert_array_equal(value, first[name], err_msg=name)
