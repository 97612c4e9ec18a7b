"""The cases of operators that pad, slice, stack, repeat, rank and add up tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel.graph.operator import Operator
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops import operations as P
from mpiparallel.testing.operator_case import OperatorCase
from tests.conformance.cases.operator_inputs import floats, integers, positive, scalar

Array = Any


def array_cases() -> list[OperatorCase]:
    """Return the cases of all operators on arrays that no other table has."""
    return [*_slices(), *_movement(), *_ranking(), *_reductions(), *_sums(), *_elementwise(), *_pooling()]


def _together(operator: Operator, tensors: Sequence[Tensor]) -> Any:
    return operator(tuple(tensors))


def _slices() -> list[OperatorCase]:
    x = floats(6, 4, 5)
    new_axis = (slice(None), None, 1, ..., None)
    indices = [new_axis, (slice(0, 6), slice(None, None, -2)), (None, slice(3, 3)), (slice(None), slice(-3, -1), -1)]
    masked = lambda: P.StridedSlice(0b001, 0b010, shrink_axis_mask=0b100)  # noqa: E731
    return [
        *(OperatorCase(f"StridedSlice-{index}", P.StridedSlice, (x,), (index,), (0,)) for index in indices),
        OperatorCase("StridedSlice-masks", masked, (x,), ((2, 1, 3), (5, 4, 9), (1, 2, 1)), (0,)),
        OperatorCase("SliceGrad-new", lambda: P.SliceGrad(new_axis), (x[new_axis], x)),
        OperatorCase("Slice", P.Slice, (x,), ((0, 1, 2), (-1, 2, 3)), (0,)),
        OperatorCase("Slice-nothing", P.Slice, (x,), ((0, 4, 0), (6, 0, 5)), (0,)),
    ]


def _movement() -> list[OperatorCase]:
    x, y = floats(6, 4, 5), floats(6, 4, seed=2)
    paddings = [((0, 0), (1, 2), (0, 0)), ((2, 0), (0, 0), (1, 1)), ((0, 0), (0, 0), (0, 0)), ((1, 0), (0, 1), (2, 2))]
    tiles = [((6, 4), (1, 2)), ((6, 4), (6, 1)), ((5,), (4, 3)), ((1, 5), (8, 1)), ((3, 1), (2, 2, 3)), ((6,), (1,))]
    return [
        *(OperatorCase(f"Pad-{pairs}", lambda pairs=pairs: P.Pad(pairs, 0.5), (x,), (), (0,)) for pairs in paddings),
        *(
            OperatorCase(f"Stack-{axis}", lambda axis=axis: P.Stack(axis), (x[..., 0], y), (), (0, 1), call=_together)
            for axis in (0, 1, -1)
        ),
        *(
            OperatorCase(f"Unstack-{axis}", lambda axis=axis: P.Unstack(axis), (floats(4, 6),), (), (0,), (0, 1, 3))
            for axis in (0, -1)
        ),
        *(
            OperatorCase(f"Tile-{shape}-{counts}", P.Tile, (floats(*shape),), (counts,), (0,))
            for shape, counts in tiles
        ),
        *(OperatorCase(f"Flatten-{shape}", P.Flatten, (floats(*shape),), (), (0,)) for shape in ((6, 4, 5), (6,))),
    ]


def _ranking() -> list[OperatorCase]:
    x, ties = floats(6, 4, 5), integers(6, 4, 5, below=3)
    unknown = np.array(x)
    unknown[1, 1:3, 2:] = np.nan
    cases = []
    for name in ("Argmax", "Argmin"):
        for axis, inputs in ((-1, x), (0, x), (1, ties), (-1, ties)):
            build = lambda name=name, axis=axis: getattr(P, name)(axis, np.int64)  # noqa: E731
            cases.append(OperatorCase(f"{name}-{axis}-{inputs.dtype}", build, (inputs,)))
        cases.append(OperatorCase(f"{name}-nan", lambda name=name: getattr(P, name)(1), (unknown,)))
        kept = lambda name=name: getattr(P, name)(1).configured(keep_dims=True)  # noqa: E731
        cases.append(OperatorCase(f"{name}-kept", kept, (x,)))
        cases.append(OperatorCase(f"{name}-row", getattr(P, name), (floats(5),)))
    for name in ("ArgMaxWithValue", "ArgMinWithValue"):
        for axis, kept in ((0, False), (1, True), (-1, False)):
            build = lambda name=name, axis=axis, kept=kept: getattr(P, name)(axis, kept)  # noqa: E731
            cases.append(OperatorCase(f"{name}-{axis}{'-kept' if kept else ''}", build, (x,), (), (0,), (1,)))
        cases.append(OperatorCase(f"{name}-ties", getattr(P, name), (ties,)))
        cases.append(OperatorCase(f"{name}-nan", lambda name=name: getattr(P, name)(2), (unknown,)))
    return [
        *cases,
        OperatorCase("TopK", P.TopK, (x,), (3,), (0,)),
        OperatorCase("TopK-all", P.TopK, (floats(7),), (7,), (0,)),
        OperatorCase("TopK-few", P.TopK, (floats(6, 40),), (4,), (0,)),
        OperatorCase("TopK-few-ties", P.TopK, (integers(6, 40, below=9),), (7,)),
        OperatorCase("TopK-ties", P.TopK, (ties,), (4,)),
        *(
            OperatorCase(
                f"CumSum-{axis}-{exclusive}-{reverse}",
                lambda exclusive=exclusive, reverse=reverse: P.CumSum(exclusive, reverse),
                (x,),
                (axis,),
                (0,),
            )
            for axis, exclusive, reverse in ((0, False, False), (1, True, False), (-1, True, True))
        ),
        OperatorCase("CumSum-integers", P.CumSum, (ties,), (1,)),
    ]


def _reductions() -> list[OperatorCase]:
    x, flags = floats(6, 3, 5), integers(6, 3, 5, below=5)
    with_zeros = np.array(x)
    with_zeros[0, 0, 0] = with_zeros[1, 0, :2] = 0
    options = [((), True), ((0, 2), False)]
    return [
        *(
            OperatorCase(f"ReduceProd-{axis}-{kept}", lambda kept=kept: P.ReduceProd(kept), (x,), (axis,), (0,))
            for axis, kept in options
        ),
        OperatorCase("ReduceProd-zeros", P.ReduceProd, (with_zeros,), (-1,), (0,)),
        *(
            OperatorCase(f"{name}-{axis}-{kept}", lambda name=name, kept=kept: getattr(P, name)(kept), (some,), (axis,))
            for name, some in (("ReduceAll", flags > 0), ("ReduceAny", flags > 3))
            for axis, kept in options
        ),
    ]


def _sums() -> list[OperatorCase]:
    x, y, z = (floats(6, 5, seed=seed) for seed in (1, 2, 3))
    logits, label = 3 * floats(6, 5), positive(6, 5, seed=2) / 3
    return [
        OperatorCase("AddN", P.AddN, (x, y, z), (), (0, 1, 2), call=_together),
        OperatorCase("AddN-one", P.AddN, (x,), (), (0,), call=_together),
        OperatorCase("BiasAdd", P.BiasAdd, (floats(6, 4), floats(4)), (), (0, 1)),
        OperatorCase("BiasAdd-rows", P.BiasAdd, (floats(3, 4, 2), floats(4)), (), (0, 1)),
        OperatorCase("L2Loss", P.L2Loss, (x,), (), (0,)),
        OperatorCase("L2Loss-0d", P.L2Loss, (scalar(1.5),), (), (0,)),
        OperatorCase("SigmoidCrossEntropyWithLogits", P.SigmoidCrossEntropyWithLogits, (logits, label), (), (0, 1)),
    ]


def _elementwise() -> list[OperatorCase]:
    x, y = 5 * floats(6, 5), positive(6, 5, seed=2) + 0.0123
    return [
        OperatorCase("FloorDiv-column", P.FloorDiv, (integers(6, 1, below=9), integers(6, 5, below=4) + 1)),
        OperatorCase("FloorMod-row", P.FloorMod, (x, y[0]), (), (0, 1)),
    ]


def _pooling() -> list[OperatorCase]:
    sizes: list[Any] = [1, (2, 3), (None, 4)]
    return [
        OperatorCase(
            f"AdaptiveAvgPool2D-{size}", lambda size=size: P.AdaptiveAvgPool2D(size), (floats(4, 3, 4, 6),), (), (0,)
        )
        for size in sizes
    ]
