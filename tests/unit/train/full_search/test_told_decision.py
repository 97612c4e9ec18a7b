"""What a full search says of what it has found, within which memory it looks, and for which ranks a plan counts."""

from __future__ import annotations

import subprocess
import sys
from math import inf
from typing import Any

import numpy as np
import pytest

from mpiparallel import context, nn
from mpiparallel.context.settings import current_configuration
from mpiparallel.search import found_strategies
from mpiparallel.search.machine.machine import Machine
from mpiparallel.train.full_search import decision, open_training
from mpiparallel.train.full_search.plan_search import Best
from mpiparallel.train.full_search.training_plan import Plan
from mpiparallel.train.full_search.trials import PricedPlan

EVERYTHING = {"parallel_mode": "auto_parallel", "auto_parallel_search_mode": "everything", "full_batch": True}


@pytest.mark.parametrize(
    ("memory", "limits", "within", "how", "count"),
    [
        # Without micro-batches there are two plans: with shards of the optimizer and without.
        (5e9, {}, 5e9, "found", 2),
        (5e9, {"search_memory_gb": 2, "search_timeout": 1e-9}, 2e9, "stopped after 1e-09 s with", 2),
        # With those of 4 rows there are three schedules of 2 and of 4 besides.
        (inf, {"search_memory_gb": 6}, 6e9, "found", 8),
    ],
)
def test_what_was_found_is_told_with_what_it_takes_and_out_of_how_many(
    memory: float,
    limits: dict[str, Any],
    within: float,
    how: str,
    count: int,
    monkeypatch: pytest.MonkeyPatch,
    remarks: Any,
) -> None:
    asked = []

    def best(trials: Any, plans: Any, limit: float, clock: Any) -> Best:
        asked.append((limit, len(plans)))
        return Best(PricedPlan(Plan(2, shards=True), 0.00254, 1_250_000_000), 3, 0.00125)

    monkeypatch.setattr(found_strategies, "kept_machine", lambda: Machine(memory=memory))
    monkeypatch.setattr(decision, "best_of", best)
    context.set_auto_parallel_context(**EVERYTHING, device_num=2, global_rank=0, **limits)
    layers = nn.SequentialCell([nn.Dense(2, 2), nn.Dense(2, 2)])
    network = nn.WithLossCell(layers, nn.MSELoss())
    cell = nn.PipelineCell(network, "auto", stages="auto") if count > 2 else network
    training = nn.TrainOneStepCell(cell, nn.SGD(network.trainable_params()))
    decision.decide(training, [np.zeros((4, 2)), np.zeros(())], current_configuration())
    assert asked == [(within, count)]
    assert remarks() == [
        f"auto_parallel: everything {how} no stages, the batch in one piece, nothing recomputed, with optimizer "
        f"shards, the best of {count} plans, 3 of them tried: a step takes 2.54 ms by the cost model and a rank 1.25 "
        "GB; none takes less than 1.25 ms"
    ]


def test_a_plan_counts_for_as_many_ranks_as_it_is_for_where_all_share_a_batch(
    monkeypatch: pytest.MonkeyPatch, remarks: Any
) -> None:
    said = [Plan(2).json]
    monkeypatch.setattr(open_training, "take_loaded_strategies", lambda: said[0])
    for mode, devices, plan in (
        ("data_parallel", 4, None),
        ("data_parallel", 2, None),
        ("semi_auto_parallel", 2, Plan(2)),
        ("auto_parallel", 2, Plan(2)),
    ):
        context.set_auto_parallel_context(parallel_mode=mode, device_num=devices)
        assert open_training.loaded_plan() == plan
    assert remarks() == []
    context.set_auto_parallel_context(device_num=4)
    assert open_training.loaded_plan() is None
    assert remarks() == [
        "strategy_ckpt_load_file: its plan is for 2 devices, and there are 4: the program's own settings count"
    ]
    said[0] = {}
    assert open_training.loaded_plan() is None


def test_a_training_without_automatic_cuts_does_not_load_the_search() -> None:
    program = (
        "import sys, numpy as np; from mpiparallel import Tensor, nn, ops\n"
        "net = nn.WithLossCell(nn.Dense(2, 1), nn.MSELoss())\n"
        "step = nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.1))\n"
        "step(Tensor(np.ones((3, 2), np.float32)), Tensor(np.ones((3, 1), np.float32)))\n"
        "print([name for name in sys.modules if name.startswith('mpiparallel.search')])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr
