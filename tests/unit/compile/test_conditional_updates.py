"""Updates that read their flags where they run are those that the host decides on, or nothing at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.conditional_updates import ConditionalUpdate, decide_on_device
from mpiparallel.compile.joined_updates import JoinedUpdates
from mpiparallel.dtype import bfloat16
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.graph import Graph, Notes
from mpiparallel.graph.operator import Operator
from mpiparallel.ops import operations as P
from mpiparallel.ops.normalization.moving_average import AssignMovingAverage
from tests.conformance.cuda_emulator.emulator import NO_COMPILER, EmulatedBackend, EmulatedKernels, compiler

is_emulated = pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)
RATE = np.float32(0.125)
WHOLE, SCALAR = "whole", "scalar"
RULES: dict[str, tuple[Operator, Sequence[Any]]] = {
    "momentum": (P.ApplyMomentum(), (WHOLE, WHOLE, SCALAR, WHOLE, SCALAR)),
    "sgd": (P.SGD(), (WHOLE, WHOLE, SCALAR, WHOLE, SCALAR, WHOLE)),
    "adam": (P.Adam(), (WHOLE, WHOLE, WHOLE, *[SCALAR] * 6, WHOLE)),
    "adam with decay": (P.AdamWeightDecay(), (WHOLE, WHOLE, WHOLE, *[SCALAR] * 5, WHOLE)),
    "assign": (P.Assign(), (WHOLE, WHOLE)),
    "assign a number": (P.Assign(), (WHOLE, SCALAR)),
    "add": (P.AssignAdd(), (WHOLE, WHOLE)),
    "subtract": (P.AssignSub(), (WHOLE, SCALAR)),
    "moving average": (AssignMovingAverage(0.75), (WHOLE, WHOLE)),
}
ROUNDING = {np.float32: 1e-6, np.float16: 2e-3, bfloat16: 2e-2}
FLAGS = [(0,), (1,), (0, 1), (1, 0), (1, 1)]


def made(kinds: Sequence[str], shape: tuple[int, ...], dtype: Any) -> list[np.ndarray[Any, Any]]:
    random = np.random.default_rng(1)
    return [np.array(RATE) if kind == SCALAR else random.uniform(0.1, 1, shape).astype(dtype) for kind in kinds]


def flag_arrays(flags: Sequence[int]) -> list[np.ndarray[Any, Any]]:
    return [np.array(flag, np.int32) for flag in flags]


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("name", RULES)
def test_an_update_is_that_of_its_rule_where_all_flags_hold_and_nothing_elsewhere(name: str, dtype: Any) -> None:
    rule, kinds = RULES[name]
    for flags in FLAGS:
        given, truth = made(kinds, (7,), dtype), made(kinds, (7,), dtype)
        if all(flags):
            rule.kernel(Runtime(), truth, [])()
        ConditionalUpdate(rule, len(flags)).kernel(Runtime(), [*given, *flag_arrays(flags)], [])()
        for one, other in zip(given, truth, strict=True):
            np.testing.assert_allclose(one.astype(np.float64), other.astype(np.float64), all(flags) * ROUNDING[dtype])


@pytest.mark.parametrize("name", RULES)
def test_a_conditional_update_costs_what_its_rule_does(name: str) -> None:
    rule, kinds = RULES[name]
    specs = [TensorSpec(one.shape, one.dtype) for one in made(kinds, (7,), np.float32)]
    flag = TensorSpec((), np.dtype(np.int32))
    wanted = rule.cost(specs, [])
    assert wanted.bytes_written > 0
    for flags in (1, 2):
        assert ConditionalUpdate(rule, flags).cost([*specs, *[flag] * flags], []) == wanted


@is_emulated
def test_kernels_of_a_gpu_leave_all_as_it_is_while_a_flag_does_not_hold(tmp_path: Path) -> None:
    kernels = EmulatedKernels(tmp_path)
    runtime = Runtime(EmulatedBackend(kernels))
    rule, kinds = RULES["adam"]
    flags = flag_arrays((1, 1))
    joined = JoinedUpdates(ConditionalUpdate(rule, 2), [3 if kind == WHOLE else 1 for kind in kinds] + [1, 1])
    columns = [made(kinds, (extent,), np.float32) for extent in (5, 8, 300)]
    arrays = [[row[place] for row in columns] for place in range(len(kinds))]
    inputs = [one for kind, column in zip(kinds, arrays, strict=True) for one in column[: 3 if kind == WHOLE else 1]]
    alone = made(kinds, (9,), np.float32)
    runs = [
        joined.kernel(runtime, [*inputs, *flags], []),
        ConditionalUpdate(rule, 2).kernel(runtime, [*alone, *flags], []),
    ]
    before = [one.copy() for one in (*inputs, *alone)]
    try:
        for flag in flags:
            flag[...] = 0
            for run in runs:
                run()
            flag[...] = 1
        for one, other in zip((*inputs, *alone), before, strict=True):
            np.testing.assert_array_equal(one, other)
        for run in runs:
            run()
    finally:
        kernels.close()
    assert all("return;" in text for text in kernels.texts.values())
    for given, extent in [*zip(columns, (5, 8, 300), strict=True), (alone, 9)]:
        truth = made(kinds, (extent,), np.float32)
        rule.kernel(Runtime(), truth, [])()
        np.testing.assert_allclose(given[0], truth[0], 1e-5)


def guarded_graph(*operators: Operator) -> Graph:
    """Return a graph in which each operator waits for one flag."""
    graph, spec = Graph(), TensorSpec((2,), np.dtype(np.float32))
    flag = graph.add_input("flag", TensorSpec((), np.dtype(np.int32)))
    for operator in operators:
        inputs = [graph.add_input("x", spec) for _ in range(2 if operator.updates else 1)]
        graph.add_node(operator, operator.name, inputs, [] if operator.updates else [spec], Notes(guards=(flag,)))
    return graph


def test_what_leads_to_an_update_runs_in_any_case_and_the_update_takes_the_flag() -> None:
    graph = guarded_graph(P.Square(), P.Assign())
    decide_on_device(graph)
    square, assign = graph.nodes
    assert (square.notes.guards, assign.notes.guards) == ((), ())
    assert [len(node.inputs) for node in graph.nodes] == [1, 3]
    assert isinstance(assign.operator, ConditionalUpdate)


@pytest.mark.parametrize("operator", [P.AllReduce(), P.Custom(lambda x: x)])
def test_communication_and_functions_of_users_wait_for_the_host(operator: Operator) -> None:
    graph = guarded_graph(operator, P.Assign())
    decide_on_device(graph)
    assert all(node.notes.guards == (graph.inputs[0],) for node in graph.nodes)
    assert not any(isinstance(node.operator, ConditionalUpdate) for node in graph.nodes)
