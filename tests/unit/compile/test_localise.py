"""What it costs to make the local graph of one rank."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

from mpiparallel import Model, context, nn
from mpiparallel.compile.localise import localise
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.context.settings import current_configuration

MODEL_PARALLEL = 4


def sharded(layers: int, ranks: int) -> ShardedGraph:
    """Return the graph of a training of dense layers, cut by rows of the batch and columns of the weights."""
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", device_num=ranks)
    network = nn.SequentialCell(*(nn.Dense(8, 8) for _ in range(layers)))
    for dense in network:
        dense.matmul.shard(((ranks // MODEL_PARALLEL, 1), (MODEL_PARALLEL, 1)))
    model = Model(network, nn.MSELoss(), nn.Momentum(network.trainable_params(), 0.1, 0.9))
    batch = [np.zeros((ranks, 8), np.float32)] * 2
    return model.shard(batch, current_configuration()).stages[0]


def calls(graph: ShardedGraph) -> int:
    """Return how many Python functions are called to localise a graph that has been localised before."""
    localise(graph, 0)
    counted = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal counted
        counted += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        localise(graph, 0)
    finally:
        sys.setprofile(before)
    return counted


def test_a_rank_of_thousands_makes_its_graph_in_the_calls_of_a_rank_of_eight() -> None:
    few, many = (calls(sharded(3, ranks)) for ranks in (8, 4096))
    assert 100 < few <= many < 1.1 * few


def test_a_value_that_is_used_before_it_is_computed_is_named() -> None:
    graph = sharded(1, 8)
    first = graph.graph.nodes[0]
    graph.graph.nodes = [*graph.graph.nodes[1:], first]
    with pytest.raises(KeyError, match=re.escape(f"{first.outputs[0]} is used before it is computed")):
        localise(graph, 0)
