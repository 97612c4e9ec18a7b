"""Where values are in data and hybrid parallel mode, on graphs that are made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.place import place
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.graph.graph import Graph, Node, Notes, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.parameter import Parameter
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.configuration import ParallelConfiguration

SPEC = TensorSpec((8, 2), np.dtype(np.float32))
TWO = DeviceMatrix((2,))
WHOLE, TERMS = Layout((8, 2), TWO, ((), ())), Layout((8, 2), TWO, ((), ()), (0,))


class Update(Operator):
    """Changes its first input."""

    updates = (0,)


class Step(Operator):
    """Changes a weight and its moment."""

    updates = (0, 1)


class Training:
    """A step of one weight: what the network computes, its gradient, and an update with a moment."""

    def __init__(self, **settings: Any) -> None:
        self.graph = Graph()
        self.x = self.graph.add_input("x", SPEC)
        self.weight, self.moment = self.parameter("weight", **settings), self.parameter("moment", requires_grad=False)
        self.product = self.add(self.x, self.weight)
        self.gradient = self.add(self.product.outputs[0], self.weight, origin=self.product)
        self.graph.gradients = {self.gradient.outputs[0]: self.weight}
        self.update = self.graph.add_node(Step(), "update", [self.weight, self.moment, self.gradient.outputs[0]], [])
        self.graph.outputs = [*self.product.outputs]

    def parameter(self, name: str, **settings: Any) -> Value:
        parameter = Parameter(np.ones((8, 2), np.float32), name)
        for setting, value in settings.items():
            setattr(parameter, setting, value)
        return self.graph.add_parameter(parameter, SPEC)

    def add(self, *inputs: Value, operator: Operator | None = None, **notes: Any) -> Node:
        return self.graph.add_node(operator or ops.Mul(), "one", inputs, [SPEC], Notes(**notes))

    def placed(self, mode: str = "data_parallel", **settings: Any) -> ShardedGraph:
        return place(self.graph, ParallelConfiguration(mode, device_num=2, **{"full_batch": False, **settings}))


def test_what_depends_on_a_batch_is_a_term_and_what_does_not_is_whole() -> None:
    training = Training()
    of_weights = training.add(training.weight, training.weight)
    sharded = training.placed()
    assert sharded.layouts[training.x] == TERMS
    assert sharded.placements[training.product].inputs == (TERMS, WHOLE)
    assert sharded.placements[training.product].outputs == (TERMS,)
    assert sharded.placements[of_weights].outputs == (WHOLE,)
    assert sharded.placements[training.gradient].outputs == (TERMS,)
    assert sharded.stored == sharded.used == {"weight": WHOLE, "moment": WHOLE}
    # What is returned of a batch stays each rank's own.
    assert sharded.output_layouts == {training.product.outputs[0]: TERMS}


def test_the_gradient_of_a_shared_weight_is_summed_where_it_is_used_and_where_it_is_returned() -> None:
    training = Training()
    scaled = training.add(training.gradient.outputs[0])
    training.graph.outputs = [*training.gradient.outputs, *scaled.outputs]
    sharded = training.placed()
    assert sharded.placements[training.update].inputs == (WHOLE, WHOLE, WHOLE)
    assert sharded.placements[scaled].inputs == (WHOLE,)
    assert sharded.output_layouts == dict.fromkeys(training.graph.outputs, WHOLE)


def test_a_layerwise_weight_is_each_ranks_own_and_its_gradient_is_not_summed() -> None:
    training = Training(layerwise_parallel=True)
    training.graph.outputs = [*training.gradient.outputs]
    sharded = training.placed("hybrid_parallel")
    assert sharded.stored == {"weight": TERMS, "moment": TERMS}
    assert sharded.placements[training.update].inputs == (TERMS, TERMS, TERMS)
    assert sharded.output_layouts == {training.gradient.outputs[0]: TERMS}


def test_with_one_batch_for_all_ranks_inputs_are_whole() -> None:
    training = Training()
    sharded = training.placed(full_batch=True)
    assert sharded.layouts[training.x] == WHOLE
    assert sharded.placements[training.product].outputs == (WHOLE,)
    # Each rank still has a gradient of its own.
    assert sharded.placements[training.gradient].outputs == (TERMS,)


@pytest.mark.parametrize(("full_batch", "wanted"), [(False, TERMS), (True, WHOLE)])
def test_what_is_overwritten_by_what_depends_on_a_batch_is_each_ranks_own(full_batch: bool, wanted: Layout) -> None:
    training = Training()
    mean, count = (training.parameter(name, requires_grad=False) for name in ("mean", "count"))
    training.graph.add_node(Update(), "moving", [mean, training.product.outputs[0]], [])
    training.graph.add_node(Update(), "counting", [count, training.graph.add_constant(np.ones((8, 2), np.float32))], [])
    sharded = training.placed(full_batch=full_batch)
    assert (sharded.stored["mean"], sharded.stored["count"], sharded.stored["weight"]) == (wanted, WHOLE, WHOLE)


def test_under_the_parallel_optimizer_weights_and_moments_are_stored_and_updated_in_shards() -> None:
    training = Training()
    scaled = training.add(training.gradient.outputs[0])
    sharded = training.placed(enable_parallel_optimizer=True, optimizer_threshold=0)
    stored = sharded.stored["weight"]
    assert (stored.cuts, bool(stored.optimizer_axes)) == ((2, 1), True)
    assert sharded.stored["moment"] == stored
    assert sharded.used["weight"] == WHOLE
    assert sharded.placements[training.update].inputs == (stored, stored, stored)
    assert sharded.placements[training.product].inputs == (TERMS, WHOLE)
    # What is done to a gradient before the update is done to the shards.
    assert sharded.placements[scaled].inputs == (stored,)
    assert sharded.placements[scaled].outputs[0].cuts == (2, 1)


def test_a_parameter_that_training_has_made_each_ranks_own_is_taken_so() -> None:
    training = Training()
    configuration = ParallelConfiguration("data_parallel", device_num=2, full_batch=False)
    held = place(training.graph, configuration, held={"weight": TERMS})
    assert held.stored["weight"] == TERMS
    whole = place(training.graph, configuration, held={"weight": WHOLE})
    assert whole.stored["weight"] == WHOLE


def test_a_sum_of_gradients_over_steps_keeps_its_terms() -> None:
    training = Training()
    total = training.parameter("total", requires_grad=False)
    training.graph.gradients[total] = training.weight
    keeping = Update()
    keeping.keeps_partial = True
    added = training.graph.add_node(keeping, "added", [total, training.gradient.outputs[0]], [])
    sharded = training.placed()
    assert sharded.placements[added].inputs == (TERMS, TERMS)
    assert sharded.stored["total"] == TERMS
