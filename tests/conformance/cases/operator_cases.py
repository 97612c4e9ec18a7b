"""One table of cases for every operator: what each test of operators runs over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mpiparallel.graph.operator import Operator
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops import operations as P
from mpiparallel.ops.elementwise import GeluGrad, ReluGrad, SigmoidGrad
from mpiparallel.testing.operator_case import OperatorCase
from tests.conformance.cases.array_cases import array_cases
from tests.conformance.cases.attention_cases import attention_cases
from tests.conformance.cases.elementwise_cases import elementwise_cases
from tests.conformance.cases.image_cases import image_cases
from tests.conformance.cases.operator_inputs import floats, integers, positive, probabilities, scalar

Array = Any
PAIRS = ("Add", "Maximum", "Pow")
"""Operators of two tensors that run under every strategy: all of them follow one sharding rule."""


def _two(name: str, make: Callable[..., Array] = floats) -> list[OperatorCase]:
    shapes = {"": ((6, 5), (6, 5)), "-row": ((4, 6), (6,)), "-column": ((4, 1), (4, 6)), "-outer": ((6, 1, 5), (4, 1))}
    build = getattr(P, name)
    return [
        OperatorCase(
            name + suffix, build, (make(*x, seed=1), make(*y, seed=2)), (), (0, 1), every_strategy=name in PAIRS
        )
        for suffix, (x, y) in shapes.items()
    ]


def _comparison(name: str) -> list[OperatorCase]:
    x, y = integers(6, 5, below=3), integers(6, 5, below=3, seed=2)
    build = getattr(P, name)
    return [
        OperatorCase(name, build, (x, y), every_strategy=name == "Less"),
        OperatorCase(f"{name}-scalar", build, (floats(6, 5), scalar(0.5)), every_strategy=name == "Less"),
    ]


def _reductions(name: str) -> list[OperatorCase]:
    options = [((), False), (0, False), (-1, True), ((0, 2), False), ((0, 2), True), ((), True), ((2, 1), False)]
    build = getattr(P, name)
    return [
        OperatorCase(
            f"{name}-{axis}{'-kept' if kept else ''}".replace(" ", ""),
            lambda kept=kept: build(kept),
            (floats(6, 3, 5),),
            (axis,),
            (0,),
        )
        for axis, kept in options
    ]


def _products() -> list[OperatorCase]:
    cases = []
    for a in (False, True):
        for b in (False, True):
            x, y = ((5, 6) if a else (6, 5)), ((3, 5) if b else (5, 3))
            suffix = f"{'-xT' if a else ''}{'-yT' if b else ''}"
            matmul = lambda a=a, b=b: P.MatMul(a, b)  # noqa: E731
            batched = lambda a=a, b=b: P.BatchMatMul(a, b)  # noqa: E731
            cases += [
                OperatorCase(f"MatMul{suffix}", matmul, (floats(*x), floats(*y)), (), (0, 1)),
                OperatorCase(f"BatchMatMul{suffix}", batched, (floats(4, *x), floats(4, *y)), (), (0, 1)),
            ]
    shapes = {"matrix": ((4, 2, 6, 5), (5, 3)), "ones": ((4, 1, 2, 5), (1, 3, 5, 2)), "longer": ((2, 3), (5, 3, 4))}
    cases += [
        OperatorCase(f"BatchMatMul-{name}", P.BatchMatMul, (floats(*x), floats(*y)), (), (0, 1))
        for name, (x, y) in shapes.items()
    ]
    return cases


def _elementwise() -> list[OperatorCase]:
    condition = integers(6, 5, below=2).astype(bool)
    return [
        *(case for name in ("Add", "Sub", "Mul", "Maximum", "Minimum") for case in _two(name)),
        *(case for name in ("Div", "RealDiv", "Pow") for case in _two(name, positive)),
        OperatorCase("Pow-square", P.Pow, (floats(6, 5), scalar(2.0)), (), (0,)),
        OperatorCase("Add-scalar", P.Add, (floats(6, 5), scalar(2.0)), (), (0, 1)),
        OperatorCase("Add-0d", P.Add, (scalar(1.5), scalar(2.0)), (), (0, 1)),
        *(
            case
            for name in ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual")
            for case in _comparison(name)
        ),
        *(
            OperatorCase(name, getattr(P, name), (condition, condition[:, ::-1]))
            for name in ("LogicalAnd", "LogicalOr")
        ),
        OperatorCase("LogicalNot", P.LogicalNot, (condition,)),
        OperatorCase("Identity", P.Identity, (floats(6, 5),), (), (0,)),
        OperatorCase("Select", P.Select, (condition, floats(6, 5), floats(6, 5, seed=2)), (), (1, 2)),
        OperatorCase("Select-row", P.Select, (condition[0], floats(6, 5), floats(6, 1, seed=2)), (), (1, 2)),
        OperatorCase("Cast", P.Cast, (floats(6, 5),), (np.float64,), (0,)),
        OperatorCase("Cast-integer", P.Cast, (floats(6, 5),), (np.int32,)),
        OperatorCase("ReluGrad", ReluGrad, (floats(6, 5), np.maximum(floats(6, 5, seed=2), 0))),
        OperatorCase("GeluGrad", GeluGrad, (floats(6, 5), floats(6, 5, seed=2))),
        OperatorCase("Custom", lambda: P.Custom(np.sin, equation="ab->ab"), (floats(6, 5),)),
        OperatorCase("SigmoidGrad", SigmoidGrad, (floats(6, 5), floats(6, 5, seed=2))),
    ]


def _movement() -> list[OperatorCase]:
    x = floats(6, 4, 5)
    shapes = [(24, 5), (6, 20), (3, 2, 4, 5), (120,), (6, 2, 2, -1), (1, 6, 4, 1, 5), (4, 6, 5)]
    indices = [2, (slice(1, 4),), (slice(None), 1), (..., slice(None, None, 2)), (slice(None), ..., -1), (0, 1, 2)]
    return [
        *(OperatorCase(f"Reshape-{shape}", P.Reshape, (x,), (shape,), (0,)) for shape in shapes),
        *(OperatorCase(f"Transpose-{order}", P.Transpose, (x,), (order,), (0,)) for order in ((2, 0, 1), (0, -1, 1))),
        *(OperatorCase(f"ExpandDims-{axis}", P.ExpandDims, (x,), (axis,), (0,)) for axis in (0, 2, -1)),
        OperatorCase("Squeeze", P.Squeeze, (floats(6, 1, 5, 1),), (), (0,)),
        OperatorCase("Squeeze-1", lambda: P.Squeeze(1), (floats(6, 1, 5, 1),), (), (0,)),
        *(
            OperatorCase(f"BroadcastTo-{shape}", lambda: P.BroadcastTo((4, 6, 5)), (floats(*shape),), (), (0,))
            for shape in ((5,), (6, 1), (4, 1, 5), (4, 6, 5), ())
        ),
        OperatorCase("BroadcastTo-kept", lambda: P.BroadcastTo((4, -1, 5)), (floats(6, 1),), (), (0,)),
        *(
            OperatorCase(f"Split-{axis}", lambda axis=axis: P.Split(axis, 2), (x,), (), (0,), (0, 1))
            for axis in (0, 1, -2)
        ),
        OperatorCase("Split-whole", lambda: P.Split(0, 1), (x,), (), (0,)),
        *(
            OperatorCase(
                f"Concat-{axis}",
                lambda axis=axis: P.Concat(axis),
                (x, floats(*shape, seed=2), x),
                differentiable=(0, 1, 2),
                call=lambda operator, tensors: operator(tuple(tensors)),
            )
            for axis, shape in ((0, (3, 4, 5)), (-1, (6, 4, 2)))
        ),
        *(OperatorCase(f"StridedSlice-{index}", P.StridedSlice, (x,), (index,), (0,)) for index in indices),
        *(
            OperatorCase(f"SliceGrad-{index}", lambda index=index: P.SliceGrad(index), (x[index], x))
            for index in ((slice(1, 4),), (slice(None), 1))
        ),
        *(OperatorCase(name, getattr(P, name), (x,)) for name in ("ZerosLike", "OnesLike", "StopGradient")),
        OperatorCase(
            "Fill", P.Fill, (scalar(2.5),), call=lambda operator, tensors: operator(np.float64, (6, 5), tensors[0])
        ),
    ]


def _rows() -> list[OperatorCase]:
    x, y, z = floats(6, 4, 5), floats(6, 4, 5, seed=2), probabilities(6, 4, 5)
    cases = []
    for axis in (-1, 0, 1):
        forward = {name: (lambda name=name, axis=axis: getattr(P, name)(axis)) for name in ("Softmax", "LogSoftmax")}
        cases += [OperatorCase(f"{name}-{axis}", build, (x,), (), (0,)) for name, build in forward.items()]
        backward = lambda axis=axis: P.SoftmaxGrad(axis)  # noqa: E731
        logarithmic = lambda axis=axis: P.LogSoftmaxGrad(axis)  # noqa: E731
        cases.append(OperatorCase(f"SoftmaxGrad-{axis}", backward, (z, y)))
        cases.append(OperatorCase(f"LogSoftmaxGrad-{axis}", logarithmic, (np.log(z), y)))
    for norm, params in ((-1, -1), (1, 1), (1, 2), (2, 1), (0, 0)):
        gamma = x.shape[params:]
        build = lambda norm=norm, params=params: P.LayerNorm(norm, params, 1e-5)  # noqa: E731
        inputs = (x, floats(*gamma, seed=3), floats(*gamma, seed=4))
        cases.append(OperatorCase(f"LayerNorm-{norm}-{params}", build, inputs, (), (0, 1, 2), (0, 1, 2)))
        axes = tuple(range(norm % 3, 3))
        statistics = (x.mean(axes, keepdims=True), x.var(axes, keepdims=True))
        build = lambda norm=norm, params=params: P.LayerNormGrad(norm, params, 1e-5)  # noqa: E731
        cases.append(OperatorCase(f"LayerNormGrad-{norm}-{params}", build, (y, x, *statistics, inputs[1])))
    return cases


def _fields(rows: Sequence[int]) -> Array:
    """Return indices of which column k has rows of part k only."""
    starts = np.cumsum([0, *rows[:-1]])
    return np.stack([start + integers(6, below=count) for start, count in zip(starts, rows, strict=True)], 1)


def _picking() -> list[OperatorCase]:
    table, ids = floats(6, 3, 5), integers(4, 3, below=6)
    wide = floats(6, 70)
    x, label = floats(4, 3, 6), integers(4, 3, below=6)
    on, off = scalar(2.0), scalar(-1.0)

    def one_hot(operator: Operator, tensors: Sequence[Tensor]) -> Any:
        return operator(tensors[0], 5, *tensors[1:])

    gradient = np.take(floats(6, 3, 5, seed=2), ids, 0)
    middle = integers(4, 2, below=3)
    return [
        OperatorCase("Gather", P.Gather, (table, ids), (0,), (0,)),
        OperatorCase("Gather-axis1", P.Gather, (table, middle), (1,), (0,)),
        OperatorCase("Gather-last", P.Gather, (table, integers(4, below=5)), (-1,), (0,)),
        OperatorCase("Gather-0d", P.Gather, (table, np.asarray(4)), (0,), (0,)),
        OperatorCase("Gather-vector", P.Gather, (floats(6), ids), (0,), (0,)),
        *(
            OperatorCase(f"Gather-batch{batch}-{axis}", lambda batch=batch: P.Gather(batch), (x, ids), (axis,), (0,))
            for batch, axis, x, ids in (
                (1, 1, floats(4, 6, 3), integers(4, 5, below=6)),
                (1, -1, floats(4, 3, 6), integers(4, 2, 2, below=6)),
                (2, 2, floats(3, 4, 5), integers(3, 4, below=5)),
                (-1, 1, floats(4, 6), integers(4, 3, below=6)),
                (-2, 0, floats(6, 4), integers(2, 3, below=6)),
            )
        ),
        *(
            OperatorCase(
                f"Gather-split{len(rows)}",
                lambda rows=rows: P.Gather().add_prim_attr("manual_split", rows),
                (floats(sum(rows), 5), _fields(rows)),
                (0,),
                (0,),
            )
            for rows in ((1, 4), (3, 1, 2), (2, 1, 1, 5), (1, 1, 7, 1, 2, 3), (1, 2, 1, 3, 1, 1, 1, 4))
        ),
        OperatorCase("GatherGrad", P.GatherGrad, (ids, gradient, table)),
        OperatorCase("GatherGrad-wide", P.GatherGrad, (ids, wide[ids], wide)),
        OperatorCase("GatherGrad-axis1", lambda: P.GatherGrad(1), (middle, np.take(table, middle, 1), table)),
        OperatorCase("GatherLast", P.GatherLast, (x, label), (), (0,)),
        OperatorCase("GatherLast-vector", P.GatherLast, (floats(6), np.asarray(4)), (), (0,)),
        OperatorCase("GatherLastGrad", P.GatherLastGrad, (floats(4, 3), label, x)),
        OperatorCase("OneHot", P.OneHot, (ids, on, off), call=one_hot),
        OperatorCase("OneHot-axis0", lambda: P.OneHot(0), (ids, on, off), call=one_hot),
        OperatorCase("OneHot-0d", P.OneHot, (np.asarray(3), on, off), call=one_hot),
    ]


def _losses() -> list[OperatorCase]:
    logits, labels = floats(6, 5), probabilities(6, 5)
    sparse = integers(6, below=5)
    x, shift = floats(4, 3, 6), floats(4, 3, 1, seed=2)
    return [
        OperatorCase(
            "SparseSoftmaxCrossEntropyWithLogits",
            P.SparseSoftmaxCrossEntropyWithLogits,
            (logits, sparse),
            differentiable=(0,),
        ),
        OperatorCase(
            "SparseSoftmaxCrossEntropyWithLogits-grad",
            lambda: P.SparseSoftmaxCrossEntropyWithLogits(is_grad=True),
            (logits, sparse),
        ),
        OperatorCase(
            "SoftmaxCrossEntropyWithLogits",
            P.SoftmaxCrossEntropyWithLogits,
            (logits, labels),
            differentiable=(0,),
        ),
        OperatorCase("SumExp", P.SumExp, (x, shift), (), (0,)),
        OperatorCase("SumExpGrad", P.SumExpGrad, (floats(4, 3, 1, seed=3), x, shift)),
    ]


def _updates() -> list[OperatorCase]:
    variable, first, second, gradient = (floats(6, 5, seed=seed) for seed in range(1, 5))
    second = np.abs(second)
    rate, momentum, beta1, beta2, epsilon, decay = map(scalar, (0.1, 0.9, 0.8, 0.95, 1e-3, 0.01))
    powers = (scalar(0.8**3), scalar(0.95**3))
    flags = integers(6, 5, below=2).astype(np.float64)
    adam = (variable, first, second, *powers, rate, beta1, beta2, epsilon, gradient)
    sgd = (variable, gradient, rate, first, momentum, flags)
    return [
        OperatorCase("ApplyMomentum", P.ApplyMomentum, (variable, first, rate, gradient, momentum)),
        OperatorCase(
            "ApplyMomentum-nesterov",
            lambda: P.ApplyMomentum(use_nesterov=True, gradient_scale=0.5),
            (variable, first, rate, gradient, momentum),
        ),
        OperatorCase("SGD", lambda: P.SGD(0.1, 0.01), sgd),
        OperatorCase("SGD-nesterov", lambda: P.SGD(0.0, 0.01, True), sgd),
        OperatorCase("SGD-plain", P.SGD, (*sgd[:4], scalar(0.0), flags)),
        OperatorCase("Adam", P.Adam, adam),
        OperatorCase("Adam-nesterov", lambda: P.Adam(use_nesterov=True), adam),
        OperatorCase(
            "AdamWeightDecay",
            P.AdamWeightDecay,
            (variable, first, second, rate, beta1, beta2, epsilon, decay, gradient),
        ),
        *(OperatorCase(name, getattr(P, name), (variable, gradient)) for name in ("Assign", "AssignAdd", "AssignSub")),
        OperatorCase("AssignAdd-scalar", P.AssignAdd, (variable, rate)),
        OperatorCase("AssignAdd-counter", P.AssignAdd, (np.asarray(3), np.asarray(1))),
    ]


def _dropouts() -> list[OperatorCase]:
    x = floats(6, 5)
    return [
        OperatorCase("Dropout", lambda: P.Dropout(0.6, 3, 4), (x,), (), (0,)),
        OperatorCase("Dropout-keep-all", lambda: P.Dropout(1.0), (x,), (), (0,)),
        OperatorCase("DropoutGrad", lambda: P.DropoutGrad(0.6), (x, integers(6, 5, below=2).astype(bool))),
    ]


def _statuses() -> list[OperatorCase]:
    sound = floats(6, 5)
    unsound = [
        np.where(np.arange(30).reshape(6, 5) == place, value, sound) for place, value in ((7, np.nan), (29, np.inf))
    ]
    large = np.full((6, 5), np.finfo(np.float64).max)
    kinds = {"": sound, "-nan": unsound[0], "-inf": unsound[1], "-large": large, "-integers": integers(6, 5, below=9)}
    return [OperatorCase(f"FloatStatus{kind}", P.FloatStatus, (x,)) for kind, x in kinds.items()]


CASES: tuple[OperatorCase, ...] = tuple(
    case
    for family in (
        elementwise_cases,
        _elementwise,
        _products,
        lambda: [case for name in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin") for case in _reductions(name)],
        _movement,
        _rows,
        _picking,
        _losses,
        _dropouts,
        _statuses,
        _updates,
        attention_cases,
        image_cases,
        array_cases,
    )
    for case in family()
)
"""Every operator, with each of its options; extents that do not divide by each other, so that cuts are uneven."""
