"""Strategies that MindSpore has found, from its files, beside those that are found here, by one model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel import Model, context, nn
from mpiparallel.compile.place import held_layouts
from mpiparallel.compile.strategies import Strategies
from mpiparallel.context.settings import current_configuration
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.machine.machine import Machine
from mpiparallel.search.problem.task import Task
from mpiparallel.search.search import MODES, search
from tests.unit.train import mindspore_nets as nets

FIXTURES = Path(__file__).parents[2] / "fixtures" / "mindspore"
OPEN = (None,) * 5
CASES = {
    "auto_rec_small": ((64, 256, 256, 64), 32),
    "auto_rec_bigweight": ((4096, 16384, 16384, 4096), 16),
}
HOST = Machine(ranks_per_host=8)


def task_of(name: str, **settings: Any) -> Task:
    """Return the training of a case on 8 ranks, of which MindSpore's file may say strategies."""
    widths, rows = CASES[name]
    context.reset_auto_parallel_context()
    context.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel", device_num=8, global_rank=0, full_batch=True, **settings
    )
    network = nets.MeanLoss(nets.ThreeMatMul(widths, OPEN))
    model = Model(network, optimizer=nn.Momentum(network.trainable_params(), 0.1, 0.9))
    data = NumpySlicesDataset((np.zeros((rows, widths[0]), np.float32),), ["x"], shuffle=False).batch(rows)
    staged = model.build(data)
    assert staged is not None
    graph, configuration = staged.of_rank(0).graph, current_configuration()
    given = Strategies.of(graph, dict(configuration.loaded_strategies))
    return Task(graph, configuration, given, held_layouts(graph, configuration), Prices(HOST))


@pytest.mark.parametrize("name", CASES)
def test_by_the_model_what_is_found_is_cheaper_than_what_mindspore_has_found(name: str) -> None:
    theirs = task_of(name, strategy_ckpt_load_file=str(FIXTURES / name / "strategy_rank0.ckpt"))
    assert len(theirs.given.inputs) == 3
    # For the small net it has found batch parallelism, for large weights cuts of these.
    batch = task_of(name).cost({}).seconds
    assert (theirs.cost({}).seconds == pytest.approx(batch)) is (name == "auto_rec_small")
    for mode in MODES:
        found = search(task_of(name), mode)
        assert found.seconds < 0.85 * theirs.cost({}).seconds
