"""What operators say that they cost, against counts by hand, and parts against the whole."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.policy import operands_of
from mpiparallel.graph.cost import Cost, counted_operations
from mpiparallel.graph.equation import Equation
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.parallel.operator_placement import place_by_strategy
from mpiparallel.testing.case_strategies import strategies_of, trace_case
from tests.conformance.cases.operator_cases import CASES

FLOAT32 = np.dtype(np.float32)


def spec(*shape: int) -> TensorSpec:
    return TensorSpec(shape, FLOAT32)


@pytest.mark.parametrize(
    ("operator", "inputs", "outputs", "cost"),
    [
        (ops.MatMul(), [spec(8, 3), spec(3, 5)], [spec(8, 5)], Cost(2 * 8 * 3 * 5, 4 * (24 + 15), 4 * 40)),
        (ops.MatMul(transpose_b=True), [spec(8, 3), spec(5, 3)], [spec(8, 5)], Cost(240, 4 * 39, 160)),
        (ops.BatchMatMul(), [spec(2, 8, 3), spec(2, 3, 5)], [spec(2, 8, 5)], Cost(480, 4 * 78, 320)),
        (ops.Add(), [spec(8, 5), spec(5)], [spec(8, 5)], Cost(40, 4 * 45, 160)),
        (ops.ReduceSum(), [spec(8, 5)], [spec()], Cost(40, 160, 4)),
        (ops.Transpose(), [spec(8, 5)], [spec(5, 8)], Cost(0, 0, 0, 0, 0)),
        (
            ops.Conv2D(6, 3, pad_mode="same"),
            [spec(2, 4, 7, 7), spec(6, 4, 3, 3)],
            [spec(2, 6, 7, 7)],
            # Each of 588 numbers is a sum of 36 products.
            # The 36 numbers that each of 98 windows holds are gathered once for all channels.
            Cost(2 * 588 * 36, 4 * (392 + 216), 4 * 588, bytes_gathered=4 * 98 * 36),
        ),
        (
            ops.Conv2DBackpropInput(6, 3, pad_mode="same"),
            [spec(2, 6, 7, 7), spec(6, 4, 3, 3), spec(2, 4, 7, 7)],
            [spec(2, 4, 7, 7)],
            Cost(2 * 588 * 36, 4 * (588 + 216), 4 * 392, bytes_gathered=4 * 98 * 54, bytes_turned=4 * 216),
        ),
        (ops.MaxPool(3, 3), [spec(2, 4, 9, 9)], [spec(2, 4, 3, 3)], Cost(72 * 9, 4 * 648, 4 * 72)),
    ],
    ids=lambda item: getattr(item, "name", ""),
)
def test_an_operator_says_what_it_costs(operator, inputs, outputs, cost) -> None:
    given = operator.configured(perm=(1, 0)) if operator.name == "Transpose" else operator
    assert given.cost(inputs, outputs) == cost


@pytest.mark.parametrize(
    ("text", "inputs", "outputs", "operations"),
    [
        # Two for each combination of labels.
        ("mk,kn->mn", [(2, 3), (3, 5)], [(2, 5)], 2 * 2 * 3 * 5),
        ("k,k->", [(7,), (7,)], [()], 2 * 7),
        ("bmk,bkn->bmn", [(2, 3, 4), (2, 4, 5)], [(2, 3, 5)], 2 * 2 * 3 * 4 * 5),
        # A label whose extents differ counts as the longer.
        ("k,k->", [(7,), (9,)], [()], 2 * 9),
        ("k,k->", [(9,), (7,)], [()], 2 * 9),
        # Nothing that only one input has is a product's: one for each element of the largest.
        ("ab->a", [(3, 4)], [(3,)], 12),
        ("a->ab", [(3,)], [(3, 4)], 12),
        ("ab,b->ab", [(3, 4), (4,)], [(3, 4)], 12),
    ],
)
def test_operations_are_counted_by_the_labels_that_are_summed_away(text, inputs, outputs, operations) -> None:
    given = [spec(*shape) for shape in inputs], [spec(*shape) for shape in outputs]
    assert counted_operations(Equation.parse(text), *given) == operations


def test_dims_without_a_label_count_for_nothing_in_a_product() -> None:
    equation = Equation((("m", "k", None), ("k", None)), (("m",),))
    assert counted_operations(equation, [spec(2, 3, 5), spec(3, 9)], [spec(2)]) == 2 * 2 * 3
    assert counted_operations(Equation((), ()), [], []) == 0


@pytest.mark.parametrize("case", [case for case in CASES if case.every_strategy], ids=lambda case: case.name)
def test_the_parts_of_an_operator_together_compute_no_less_than_the_whole(case) -> None:
    node = trace_case(case).applications[0].node
    operands = operands_of(node)
    whole = node.operator.cost(*[[value.spec for value in side] for side in (node.inputs, node.outputs)])
    for strategy in strategies_of(case, 4):
        placement = place_by_strategy(operands, strategy, DeviceMatrix((4,)))
        sides = (node.inputs, placement.inputs), (node.outputs, placement.outputs)
        parts = [node.operator.cost(*[local_specs(*side, rank) for side in sides]) for rank in range(4)]
        assert sum(part.operations for part in parts) >= whole.operations, strategy


def local_specs(values, layouts, rank):
    pairs = zip(values, layouts, strict=True)
    return [TensorSpec(layout.local_shape(rank), value.spec.dtype) for value, layout in pairs]
