"""What each layer of a training takes, counted by hand where each operator takes a second and each collective 101."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from math import inf
from typing import Any

import numpy as np
import pytest

from mpiparallel import nn
from mpiparallel.compile.recomputation import RECOMPUTED
from mpiparallel.compile.strategies import Strategies
from mpiparallel.errors import ShapeError
from mpiparallel.parallel.configuration import EVERYTHING, ParallelConfiguration, ParallelMode
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.machine.machine import Link, Machine
from mpiparallel.search.problem.clock import Clock
from mpiparallel.train.full_search.profile import LayerNumbers, LayerProfile, profiled
from mpiparallel.train.full_search.training_plan import Plan
from mpiparallel.train.full_search.trials import Trials

FREE = Machine(
    products=((1.0, inf),),
    operation_rate=inf,
    memory_bandwidth=inf,
    launch=1.0,
    inside=Link(100.0, inf),
    reduction_rate=inf,
)
"""On which size does not count."""


class Twice(nn.Cell):
    """Takes batches of so many rows at least."""

    def __init__(self, least: int) -> None:
        super().__init__()
        self.least = least
        self.first, self.second = nn.Dense(4, 6, activation="tanh"), nn.Dense(6, 8, activation="tanh")

    def construct(self, x: Any) -> Any:
        if x.shape[0] < self.least:
            raise ShapeError(f"fewer than {self.least} rows")
        return self.second(self.first(x))


def trials_of(machine: Machine, *plans: Plan, least: int = 0, places: Sequence[int] = ()) -> Trials:
    """Return the trials of layers of 86, 18 and 4 weights under a mean of squares, by momentum, on 16 rows.

    ``places`` are the stages of the layers where the user has set them.
    """
    network = nn.SequentialCell([Twice(least), nn.Dense(8, 2), nn.LayerNorm((2,))])
    for layer, stage in zip(network, places, strict=False):
        layer.pipeline_stage = stage
    micro_size, stages = (2, None) if places else ("auto", "auto")
    cell = nn.PipelineCell(nn.WithLossCell(network, nn.MSELoss()), micro_size, stages=stages)
    training = nn.TrainOneStepCell(cell, nn.Momentum(network.trainable_params(), 0.1, 0.9)).set_train()
    mode, devices = ParallelMode.AUTO_PARALLEL, plans[0].devices
    configuration = ParallelConfiguration(
        mode, device_num=devices, search_mode=EVERYTHING, full_batch=True, optimizer_threshold=0
    )
    batch = [np.zeros((16, 4), np.float32), np.zeros((16, 2), np.float32)]
    return Trials(training, cell, batch, configuration, Prices(machine), Clock(), plans)


@pytest.mark.parametrize("shards", [False, True])
def test_seconds_and_bytes_are_those_of_the_layer_that_an_operator_or_a_weight_belongs_to(shards: bool) -> None:
    plan, part = Plan(2, shards=shards), 2 if shards else 1
    trials = trials_of(FREE, plan)
    graph = trials._piece(1)
    by_the_batch = trials._task(plan, graph, Strategies.of(graph, {})).placed({})
    found: LayerProfile = profiled(by_the_batch, Prices(FREE), trials._layers)
    # Of a rank with 8 rows, last what is in no layer.
    assert {field.name: getattr(found, field.name).tolist() for field in fields(found)} == {
        # Products, sums with a bias and tanh; the norm; the difference, its squares, their mean, and that over ranks.
        "forward": [6, 2, 1, 3 + 101],
        # Of each product those for weight and input, but for the first input, and the sum for the bias. Of tanh
        # the square, the difference and the product.
        "backward": [2 * 3 + 2 * 3 - 1, 3, 1, 4],
        # Gradients are summed and weights updated once, however many micro-batches there are; of shards those of a
        # weight are put together, and gathered. The counter is in no layer.
        "step": [4 * (1 + part * 101), *[2 * (1 + part * 101)] * 2, 1],
        # What tanh returns, the second time for the next layer; what the norm takes, and its two numbers of each row,
        # which no layer reads; the difference.
        "kept": [8 * (6 + 8) * 4, 8 * 2 * 4, 8 * 2 * 4, 8 * 2 * 4],
        "bordering": [8 * 8 * 4, 8 * 2 * 4, 0, 0],
        # Weights and their moments; three numbers of the optimizer.
        "held": [2 * 4 * 86 / part, 2 * 4 * 18 / part, 2 * 4 * 4 / part, 3 * 4],
        "trained": [4 * 86 / part, 4 * 18 / part, 4 * 4 / part, 0],
    }
    names = trials._layers
    assert [names.of(f"{again}network/_backbone/1/MatMul") for again in ("", RECOMPUTED)] == [1, 1]
    assert (names.of("network/_loss_fn/Sub"), LayerNumbers(0).of("network/_backbone/1/MatMul")) == (-1, -1)
