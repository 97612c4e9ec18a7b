"""Redistribution inside a step, between any two layouts, on thread ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.communication.threads import run_world
from mpiparallel.graph.execution.program import Program
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.graph import Graph
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.redistribution import group_layouts, redistribute
from mpiparallel.parallel.redistribution_operators import SliceBox, redistributing_operator
from mpiparallel.reshard.planning.plan import plan_reshard

REDUCE = {"sum": np.sum, "max": np.max, "min": np.min}


def redistributed(communicator, source: Layout, target: Layout, arrays):
    """Return what a rank has after the steps from its array in ``source``."""
    rank = communicator.rank
    array = np.ascontiguousarray(arrays[rank])
    graph = Graph()
    value = graph.add_input("x", TensorSpec(array.shape, array.dtype))
    for step in redistribute(source, target):
        operator = redistributing_operator([step], rank)
        value = graph.add_node(operator, operator.name, [value], operator.infer(value.spec)).outputs[0]
    graph.outputs = [value]
    return np.array(Program(graph, Runtime(communicator=communicator)).run([array])[0])


@settings(max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
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


@st.composite
def with_overlaps(draw: st.DrawFn, layout: Layout) -> Layout:
    """Draw the layout with parts that overlap, leave elements out, are empty, or are as before."""
    bounds = []
    for extent, cut in zip(layout.global_shape, layout.cuts, strict=True):
        ends = st.integers(0, extent)
        ranges = st.lists(st.tuples(ends, ends).map(lambda pair: tuple(sorted(pair))), min_size=cut, max_size=cut)
        bounds.append(tuple(draw(ranges)) if cut > 1 and draw(st.booleans()) else ())
    return layout.with_bounds(bounds)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_every_rank_ends_with_the_overlapping_part_that_it_needs(data, layouts, shapes):
    size = data.draw(st.sampled_from([2, 3, 4, 6, 8]))
    shape = data.draw(shapes())
    full = layouts(shape, size, size - 1, partial=True).filter(lambda one: one.devices.size == size)
    source = data.draw(full)
    plain = data.draw(st.one_of(st.just(source.reduced()), full.map(Layout.reduced)))
    target = data.draw(with_overlaps(replace(plain, optimizer_axes=())))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    terms = _terms(source, random)
    whole = _whole(source, terms)

    results = run_world(size, redistributed, source, target, terms)

    for rank, result in enumerate(results):
        expected = whole[target.box(rank).within(Box.whole(shape))]
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_what_a_rank_receives_is_what_it_needs_and_lacks(data, layouts, shapes):
    size = data.draw(st.sampled_from([2, 3, 4, 6, 8]))
    shape = data.draw(shapes())
    full = layouts(shape, size, size - 1).filter(lambda one: one.devices.size == size)
    source = data.draw(full)
    plain = data.draw(st.one_of(st.just(source), full))
    target = data.draw(with_overlaps(replace(plain, optimizer_axes=())))

    plans = [plan_reshard({"x": (source, target)}, rank) for rank in range(size)]

    for rank, plan in enumerate(plans):
        held, needed = np.zeros(shape, int), np.zeros(shape, int)
        held[source.box(rank).within(Box.whole(shape))] = 1
        needed[target.box(rank).within(Box.whole(shape))] = 1
        received = np.zeros(shape, int)
        for transfer in plan.receives:
            received[transfer.box.within(Box.whole(shape))] += 1
            assert transfer in plans[transfer.source].sends
        np.testing.assert_array_equal(received, needed * (1 - held))
    sent = sum(len(plan.sends) for plan in plans)
    assert sent == sum(len(plan.receives) for plan in plans)


def test_neighbours_exchange_along_the_cut_dim_alone_and_nobody_where_all_is_at_hand():
    devices = DeviceMatrix((2, 4))
    rows = Layout((4, 8), devices, ((0,), (1,)))
    reaching = rows.with_bounds(((), ((0, 3), (1, 5), (3, 7), (5, 8))))
    (step,) = redistribute(rows, reaching)
    assert (step.kind, step.ranks(5)) == ("exchange", (4, 5, 6, 7))
    inside = rows.with_bounds(((), ((0, 1), (2, 4), (5, 6), (6, 6))))
    assert [step.kind for step in redistribute(rows, inside)] == ["slice"]
    whole = Layout.replicated((4, 8), devices)
    assert [step.kind for step in redistribute(whole, reaching)] == ["slice"]


def test_a_partial_sum_of_which_overlapping_parts_are_needed_is_scattered_then_exchanged():
    devices = DeviceMatrix((2,))
    partial = Layout((8,), devices, ((),), partial=(0,))
    halves = Layout((8,), devices, ((0,),)).with_bounds((((0, 5), (3, 8)),))
    assert [step.kind for step in redistribute(partial, halves)] == ["reduce_scatter", "exchange"]


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
    assert redistribute(shard, shard) == ()


def test_only_ranks_between_which_elements_move_exchange():
    devices = DeviceMatrix((2, 4))
    rows = Layout((8, 8), devices, ((0, 1), ()))
    columns = Layout((8, 8), devices, ((0,), (1,)))
    (step,) = redistribute(rows, columns)
    assert step.kind == "exchange"
    assert step.ranks(5) == (4, 5, 6, 7)


@pytest.mark.parametrize("reduction", ["sum", "max"])
@pytest.mark.parametrize(
    ("source_map", "partial", "target_map", "kinds"),
    [
        (((), ()), (0, 1), ((), ()), ["reduce"]),
        (((), ()), (1,), ((), ()), ["reduce"]),
        (((), ()), (0, 1), ((0,), (1,)), ["reduce", "slice"]),
        (((0,), ()), (1,), ((), ()), ["reduce", "exchange"]),
        (((0,), (1,)), (), ((0,), (1,)), ["exchange"]),
    ],
)
def test_between_matrices_without_a_common_refinement_terms_are_reduced_then_what_is_left_moves(
    source_map, partial, target_map, kinds, reduction
) -> None:
    source = Layout((6, 6), DeviceMatrix((2, 3)), source_map, partial=partial, reduction=reduction)
    target = Layout((6, 6), DeviceMatrix((3, 2)), target_map)
    terms = _terms(source, np.random.default_rng(3))
    assert [step.kind for step in redistribute(source, target)] == kinds
    whole = _whole(source, terms)
    for rank, result in enumerate(run_world(6, redistributed, source, target, terms)):
        np.testing.assert_array_equal(result, whole[target.box(rank).within(Box.whole((6, 6)))])


TWO_BY_FOUR = DeviceMatrix((2, 4))


def cut(rows: tuple[int, ...], columns: tuple[int, ...] = (), shape: tuple[int, int] = (8, 8), **settings) -> Layout:
    return Layout(shape, TWO_BY_FOUR, (rows, columns), **settings)


ALL = tuple(range(8))
COLUMN_OF_5, ROW_OF_5 = (1, 5), (4, 5, 6, 7)


@pytest.mark.parametrize(
    ("source", "target", "steps"),
    [
        # What lies beside each other is gathered by those who hold it.
        (cut((0,)), cut(()), [("gather", COLUMN_OF_5)]),
        (cut((0, 1)), cut((0,)), [("gather", ROW_OF_5)]),
        (cut((0, 1)), cut(()), [("gather", ALL)]),
        (cut((0,), (1,)), cut((0,)), [("gather", ROW_OF_5)]),
        (cut((0,), optimizer_axes=(1,)), cut((0,)), [("gather", ROW_OF_5)]),
        # Parts of unequal size, in another order than the ranks, or of two dims, are exchanged.
        (cut((1,), shape=(6, 8)), cut((), shape=(6, 8)), [("exchange", ROW_OF_5)]),
        (cut((1, 0)), cut(()), [("exchange", ALL)]),
        (cut((0,), (1,)), cut(()), [("exchange", ALL)]),
        (cut((0, 1)), cut((1,)), [("exchange", ALL)]),
        (cut((0,)), cut((1,)), [("exchange", ALL)]),
        (cut((0,)), cut((), (0,)), [("exchange", COLUMN_OF_5)]),
        # A rank holds the parts of its part.
        (cut(()), cut((0,)), [("slice", COLUMN_OF_5)]),
        (cut((1,)), cut((1, 0)), [("slice", COLUMN_OF_5)]),
        (cut((0,)), cut((0,), (1,)), [("slice", ROW_OF_5)]),
        (cut((0,)), cut((0,), optimizer_axes=(1,)), [("slice", ROW_OF_5)]),
        # Sums that are cut by the axes of their terms are scattered, the rest of the terms is summed after it.
        (cut((), partial=(0,)), cut((0,)), [("reduce_scatter", COLUMN_OF_5)]),
        (cut((), partial=(0, 1)), cut((0, 1)), [("reduce_scatter", ALL)]),
        (cut((0,), partial=(1,)), cut((0, 1)), [("reduce_scatter", ROW_OF_5)]),
        (cut((), partial=(0, 1)), cut((), (1,)), [("reduce_scatter", ROW_OF_5), ("reduce", COLUMN_OF_5)]),
        # Other reductions, unequal blocks, blocks in another order, and other axes than those of the terms.
        (cut((), partial=(0,), reduction="max"), cut((0,)), [("reduce", COLUMN_OF_5), ("slice", COLUMN_OF_5)]),
        (
            cut((), partial=(1,), shape=(6, 8)),
            cut((1,), shape=(6, 8)),
            [("reduce", ROW_OF_5), ("slice", ROW_OF_5)],
        ),
        (cut((), partial=(0, 1)), cut((1, 0)), [("reduce", ALL), ("slice", ALL)]),
        (cut((), partial=(0, 1)), cut((0,), (1,)), [("reduce", ALL), ("slice", ALL)]),
        (cut((), partial=(0,)), cut((1,)), [("reduce", COLUMN_OF_5), ("slice", ROW_OF_5)]),
        (cut((1,), partial=(0,)), cut(()), [("reduce", COLUMN_OF_5), ("gather", ROW_OF_5)]),
        # Whoever has what it needs does nothing.
        (cut((), partial=(0,)), cut(()), [("reduce", COLUMN_OF_5)]),
        (cut((0,)), cut((0,)), []),
        (cut((0, 1)), cut((0,), optimizer_axes=(1,)), []),
        (cut((0,), optimizer_axes=(1,)), cut((0, 1)), []),
        # Eight parts of ten rows are not the quarters of halves.
        (
            cut((0,), optimizer_axes=(1,), shape=(10, 8)),
            cut((0, 1), shape=(10, 8)),
            [("exchange", ALL)],
        ),
    ],
)
def test_each_move_takes_the_steps_that_move_least_among_as_few_ranks_as_can_be(source, target, steps) -> None:
    found = redistribute(source, target)
    assert [(step.kind, step.ranks(5)) for step in found] == steps
    assert [step.continues for step in found] == [False, True][: len(steps)]


@pytest.mark.parametrize(("rows_of_5", "within"), [((3, 4), (1, 2)), ((2, 4), (0, 2)), ((4, 4), (0, 0))])
def test_ranks_that_exchange_see_the_rows_that_stay_counted_from_the_start_of_their_own(rows_of_5, within) -> None:
    columns = ((0, 3), (1, 5), (3, 7), (5, 8))
    rows = Layout((4, 8), TWO_BY_FOUR, ((0,), (1,)))
    (step,) = redistribute(rows, rows.with_bounds((((0, 1), rows_of_5), columns)))
    assert (step.kind, step.ranks(5)) == ("exchange", ROW_OF_5)
    source, target = group_layouts(step, 5)
    assert (source.global_shape, source.cuts, source.devices.shape) == ((2, 8), (1, 4), (4,))
    assert target.bounds == ((within,), columns)


def test_a_slice_of_no_rows_has_all_columns() -> None:
    rows = SliceBox(Box((0, 0), (4, 3)), Box((2, 0), (2, 3))).view(np.zeros((4, 3)))
    assert rows.shape == (0, 3)
    columns = SliceBox(Box((2, 1), (6, 5)), Box((3, 2), (5, 4))).view(np.arange(16).reshape(4, 4))
    assert columns.tolist() == [[5, 6], [9, 10]]
