"""The device matrix of an operator under a strategy is the one that MindSpore makes.

Expected are the device matrix and the tensor maps that MindSpore's planner derives, in the form of its strategy files:
axes of one device left out, axes counted from the right, -1 for a dim that is not cut. Source: ``InferDevMatrixShape``
and ``InferTensorMap`` of each operator's file in ``frontend/parallel/ops_info`` of MindSpore 2.
"""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel.ops as ops
from mpiparallel import context, nn
from mpiparallel.checkpoint.strategy.strategy_record import LayoutItem

DEVICES = 8


def gather(axis=0):
    return lambda operator: lambda table, indices: operator(table, indices, axis)


def with_dims(*dims):
    return lambda operator: lambda x: operator(x, *dims)


def plain(operator):
    return operator


def first(call=plain):
    return lambda operator: lambda *inputs: call(operator)(*inputs)[0]


def in_a_list(operator):
    return lambda *inputs: operator(inputs)


TABLE, INDICES, LABELS = (8, 16), (8, 4), (12,)
BN = ((16, 8, 4, 4), *[(8,)] * 4)
CASES = {
    # [batch.., a, b, c] of (a, b) x (b, c), transposed or not.
    "product": (ops.MatMul(), plain, ((8, 8), (8, 8)), ((2, 2), (2, 2)), (2, 2, 2), [[2, 1], [1, 0]]),
    "product, x turned": (ops.MatMul(True), plain, ((8, 8), (8, 8)), ((2, 4), (2, 1)), (4, 2), [[0, 1], [0, -1]]),
    "product, w turned": (
        ops.MatMul(transpose_b=True),
        plain,
        ((8, 8), (8, 8)),
        ((2, 2), (2, 2)),
        (2, 2, 2),
        [[2, 1], [0, 1]],
    ),
    "product, both turned": (
        ops.MatMul(True, True),
        plain,
        ((8, 8), (8, 8)),
        ((2, 2), (2, 2)),
        (2, 2, 2),
        [[1, 2], [0, 1]],
    ),
    "product of batches": (
        ops.BatchMatMul(),
        plain,
        ((4, 8, 8), (4, 8, 8)),
        ((2, 1, 2), (2, 2, 2)),
        (2, 2, 2),
        [[2, -1, 1], [2, 1, 0]],
    ),
    "product, w has the batches": (
        ops.BatchMatMul(),
        plain,
        ((8, 8), (4, 8, 8)),
        ((2, 1), (2, 1, 2)),
        (2, 2, 2),
        [[1, -1], [2, -1, 0]],
    ),
    # Indices before the table, wherever the picked dim stands.
    "lookup, rows and indices": (
        ops.Gather(),
        gather(),
        (TABLE, INDICES),
        ((4, 1), (2, 1)),
        (2, 4),
        [[0, -1], [1, -1]],
    ),
    "lookup, columns and indices": (
        ops.Gather(),
        gather(),
        (TABLE, INDICES),
        ((1, 4), (2, 1)),
        (2, 4),
        [[-1, 0], [1, -1]],
    ),
    "lookup, columns and both dims of indices": (
        ops.Gather(),
        gather(),
        (TABLE, INDICES),
        ((1, 2), (2, 2)),
        (2, 2, 2),
        [[-1, 0], [2, 1]],
    ),
    "lookup in dim 1": (ops.Gather(), gather(1), (TABLE, INDICES), ((2, 1), (4, 1)), (4, 2), [[0, -1], [1, -1]]),
    "lookup in tables of a batch": (
        ops.Gather(1),
        gather(2),
        ((8, 8, 8), INDICES),
        ((2, 2, 1), (2, 2)),
        (2, 2, 2),
        [[2, 0, -1], [2, 1]],
    ),
    # What is computed again lies on the first axis where the rows are cut, else on the last.
    "lookup, rows, repeated": (ops.Gather(), gather(), (TABLE, INDICES), ((2, 1), (1, 1)), (4, 2), [[0, -1], [-1, -1]]),
    "lookup, columns, repeated": (
        ops.Gather(),
        gather(),
        (TABLE, INDICES),
        ((1, 2), (1, 1)),
        (2, 4),
        [[-1, 1], [-1, -1]],
    ),
    "lookup, rows and columns": (
        ops.Gather(),
        gather(),
        (TABLE, INDICES),
        ((2, 4), (1, 1)),
        (2, 4),
        [[1, 0], [-1, -1]],
    ),
    # The dims of the broadcast output.
    "lower rank first": (ops.Mul(), plain, ((8, 8), (8, 8, 8)), ((1, 4), (2, 1, 4)), (2, 4), [[-1, 0], [1, -1, 0]]),
    "crossed ranks of one": (ops.Add(), plain, ((1, 8), (8, 1)), ((1, 4), (2, 1)), (2, 4), [[-1, 0], [1, -1]]),
    "bias": (ops.BiasAdd(), plain, ((8, 8), (8,)), ((2, 4), (4,)), (2, 4), [[1, 0], [0]]),
    # The dims of the input, though the output lacks some or has them elsewhere.
    "sum": (ops.ReduceSum(), with_dims(0), ((8, 8),), ((2, 4),), (2, 4), [[1, 0]]),
    "transposition": (ops.Transpose(), with_dims((1, 0)), ((8, 8),), ((2, 4),), (2, 4), [[1, 0]]),
    "slice": (ops.StridedSlice(), with_dims((0, 0), (8, 4), (1, 1)), ((8, 8),), ((4, 1),), (4, 2), [[1, -1]]),
    "normalised rows": (
        ops.LayerNorm(),
        first(),
        ((8, 8), (8,), (8,)),
        ((4, 1), (1,), (1,)),
        (4, 2),
        [[1, -1], [-1], [-1]],
    ),
    "convolution": (
        ops.Conv2D(8, 3, pad_mode="same"),
        plain,
        ((8, 8, 8, 8), (8, 8, 3, 3)),
        ((2, 2, 1, 1), (2, 2, 1, 1)),
        (2, 2, 2),
        [[2, 1, -1, -1], [0, 1, -1, -1]],
    ),
    "batch norm": (
        ops.BatchNorm(),
        first(),
        BN,
        ((2, 4, 1, 1), (4,), (4,), (4,), (4,)),
        (2, 4),
        [[1, 0, -1, -1], [0], [0], [0], [0]],
    ),
    "one hot": (
        ops.OneHot(),
        with_dims(8),
        (LABELS,),
        ((2, 4), (), ()),
        (2, 4),
        [[1], [], []],
    ),
    "one hot, depth first": (ops.OneHot(0), with_dims(8), (LABELS,), ((4, 2), (), ()), (2, 4), [[1], [], []]),
    "pieces joined": (ops.Concat(1), in_a_list, ((8, 8), (8, 8)), ((4, 1), (4, 1)), (4, 2), [[1, -1]] * 2),
    "pieces": (ops.Split(1, 2), first(), ((8, 8),), ((4, 1),), (4, 2), [[1, -1]]),
    "repetition": (ops.Tile(), with_dims((1, 4)), ((8, 8),), ((2, 4),), (2, 4), [[1, -1]]),
}


class Applied(nn.Cell):
    def __init__(self, operator, call):
        super().__init__()
        self.operator, self.call = operator, call

    def construct(self, *inputs):
        return self.call(self.operator)(*inputs)


@pytest.fixture(autouse=True)
def _eight_devices():
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", device_num=DEVICES, full_batch=True)
    yield
    context.reset_auto_parallel_context()


@pytest.mark.parametrize("case", CASES)
def test_the_axes_are_mindspores(case) -> None:
    operator, call, shapes, strategy, matrix, maps = CASES[case]
    kinds = [np.int32 if shape in (INDICES, LABELS) else np.float32 for shape in shapes]
    inputs = [np.zeros(shape, kind) for shape, kind in zip(shapes, kinds, strict=True)]
    operator = operator.configured(strategy=None).shard(strategy)
    sharded = Applied(operator, call).sharded_graph(*inputs)
    (placement,) = (sharded.placements[node] for node in sharded.graph.nodes if node.operator.strategy is not None)
    items = [LayoutItem.of(layout) for layout in placement.inputs]
    assert {item.device_matrix for item in items} == {matrix}
    right = [[len(matrix) - 1 - axes[0] if axes else -1 for axes in item.tensor_map] for item in items]
    assert right == maps
