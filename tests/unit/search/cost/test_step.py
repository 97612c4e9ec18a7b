"""What a step costs is the sum of what its first rank runs, node after node."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.errors import StrategyError
from mpiparallel.search.cost.step import step_cost
from mpiparallel.search.cost.timed_nodes import timed_nodes
from mpiparallel.search.problem.choices import choices_of
from tests.conformance.searched_networks import Drawn, Moved, Transformer, task_of, weight

SHARDS = {"enable_parallel_optimizer": True, "optimizer_threshold": 0}


class Unread(Drawn):
    """A network that computes what nothing needs."""

    def __init__(self) -> None:
        super().__init__(4, 3)
        self.unused, self.table = ops.MatMul(), weight(self.width, self.width)

    def construct(self, x):
        self.unused(x, self.table)
        return super().construct(x)


def recomputed():
    network = Transformer(3)
    network.layers[1].recompute()
    return network


CASES = {
    **{f"drawn {seed}": (lambda seed=seed: Drawn(seed, 6), {}) for seed in range(4)},
    "Transformer": (lambda: Transformer(2), {}),
    "Transformer, shards": (lambda: Transformer(2), SHARDS),
    "recomputation, shards": (recomputed, SHARDS),
    "what nothing needs": (Unread, {}),
    "an output that moves": (Moved, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_step_costs_what_the_nodes_of_the_first_rank_cost_together(name: str) -> None:
    make, settings = CASES[name]
    task = task_of(make(), 8, **settings)
    draw = np.random.default_rng(len(name))
    if name == "what nothing needs":
        assert "network/MatMul" in {node.name for node in task.graph.nodes} - {node.name for node in task.live}
    choices = choices_of(task.graph, task.given, task.configuration.device_num)
    kinds: set[str] = set()
    for _ in range(12):
        strategies = {choice.node: choice.options[draw.integers(len(choice.options))] for choice in choices}
        try:
            sharded = task.placed(strategies)
        except StrategyError:
            # Operators that share a parameter must cut it alike.
            continue
        told: dict[str, float] = defaultdict(float)
        for one in timed_nodes(sharded, task.prices):
            told[one.step.kind if one.step is not None else ""] += one.seconds
        cost = step_cost(sharded, task.prices, task.live)
        assert {"": cost.computing, **cost.moving} == pytest.approx(dict(told), rel=1e-9)
        kinds.update(cost.moving)
    assert {"reduce", "gather"} <= kinds
