"""Redistribution inside a step, between any two layouts, on thread ranks."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mpiparallel.communication.threads import run_world
from mpiparallel.graph.graph import Graph
from mpiparallel.graph.program import Program
from mpiparallel.graph.runtime import Runtime
from mpiparallel.graph.tensor_spec import TensorSpec
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.redistribution import redistribute

REDUCE = {"sum": np.sum, "max": np.max, "min": np.min}


def redistributed(communicator, source: Layout, target: Layout, arrays):
    """Return what a rank has after the steps from its array in ``source``."""
    rank = communicator.rank
    array = np.ascontiguousarray(arrays[rank])
    graph = Graph()
    value = graph.add_input("x", TensorSpec(array.shape, array.dtype))
    for step in redistribute(source, target):
        operator = step.operator(rank)
        value = graph.add_node(operator, operator.name, [value], operator.infer(value.spec)).outputs[0]
    graph.outputs = [value]
    return np.array(Program(graph, Runtime(communicator=communicator)).run([array])[0])


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_rank_ends_with_the_slice_that_numpy_cuts(data, layouts, shapes):
    size = data.draw(st.sampled_from([1, 2, 3, 4, 6, 8]))
    shape = data.draw(shapes())
    source = data.draw(layouts(shape, size, size - 1, partial=True).filter(lambda one: one.devices.size == size))
    target = data.draw(layouts(shape, size, size - 1).filter(lambda one: one.devices.size == size))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    terms = _terms(source, random)
    whole = _whole(source, terms)

    results = run_world(size, redistributed, source, target, terms)

    for rank, result in enumerate(results):
        expected = whole[target.box(rank).within(Box.whole(shape))]
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12)


def _terms(layout: Layout, random) -> list[np.ndarray]:
    """Return an array for each rank: equal on replicas, whole numbers so that sums are exact."""
    made = {}
    arrays = []
    for rank in range(layout.devices.size):
        term = tuple(layout.devices.coordinates(rank)[axis] for axis in layout.partial)
        key = (layout.parts(rank), term)
        if key not in made:
            made[key] = random.integers(-50, 50, layout.local_shape(rank)).astype(float)
        arrays.append(made[key])
    return arrays


def _whole(layout: Layout, terms) -> np.ndarray:
    whole = np.zeros(layout.global_shape)
    for rank in range(layout.devices.size):
        group = [terms[member] for member in layout.partial_group(rank)]
        whole[layout.box(rank).within(Box.whole(layout.global_shape))] = REDUCE[layout.reduction](group, axis=0)
    return whole


def test_a_partial_sum_that_is_cut_next_is_scattered_not_reduced():
    devices = DeviceMatrix((2, 4))
    partial = Layout((8, 6), devices, ((), (1,)), partial=(0,))
    shard = Layout((8, 6), devices, ((), (1,)), optimizer_axes=(0,))
    assert [step.kind for step in redistribute(partial, shard)] == ["reduce_scatter"]
    assert [step.kind for step in redistribute(partial, partial.reduced())] == ["reduce"]
    assert [step.kind for step in redistribute(partial.reduced(), shard)] == ["slice"]
    assert redistribute(shard, shard) == []


def test_only_ranks_between_which_elements_move_exchange():
    devices = DeviceMatrix((2, 4))
    rows = Layout((8, 8), devices, ((0, 1), ()))
    columns = Layout((8, 8), devices, ((0,), (1,)))
    (step,) = redistribute(rows, columns)
    assert step.kind == "exchange"
    assert step.ranks(5) == (4, 5, 6, 7)
