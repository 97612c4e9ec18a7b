"""Probes of operators and of functions of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mpiparallel as ms
from mpiparallel import Tensor, ops
from mpiparallel.graph.parameter import Parameter
from tests.conformance.probes.argument_probe import (
    CLASSES,
    ROWS,
    SQUARE,
    WEIGHT,
    Beside,
    Noted,
    Probe,
    Refused,
    X,
    function,
    operator,
    seen,
)

AXIS = {"axis": 0}
REDUCTION = {"keep_dims": True}
CONVOLUTION = {
    "mode": Refused(0),
    "pad_mode": "same",
    "pad": Beside(1, {"pad_mode": "pad"}),
    "stride": 2,
    "dilation": 2,
    "data_format": Refused("NHWC"),
}
MASKS = {
    "begin_mask": 1,
    "end_mask": 1,
    "ellipsis_mask": 1,
    "new_axis_mask": 1,
    "shrink_axis_mask": 1,
}
PLACES = (ROWS, (1, 1), (2, 3), (1, 1))
MOVING = tuple(np.full(4, value, np.float32) for value in (1.0, 0.5, 0.25, 2.0))
ONES = np.ones((2, 2), np.float32)
CONSTANTS = {"dtype": ms.float16}


def stepped(kind: Callable[..., Any], *others: Any) -> Callable[..., Any]:
    """Return what updates a parameter, and what else an operator overwrites, once."""

    def call(**options: Any) -> Any:
        given = [Parameter(one.copy(), f"p{place}") if one.shape else Tensor(one) for place, one in enumerate(others)]
        update = kind(**options)
        update(*given)
        update(*given)
        return seen(given)

    return call


def _mapped(**options: Any) -> Any:
    """Return what HyperMap gives, and the order in which it calls."""
    calls: list[float] = []

    def noting(x: Tensor) -> Tensor:
        calls.append(x.item())
        return x

    given = (Tensor(2.0), Tensor(3.0))
    found = ops.HyperMap(options.pop("ops", noting), **options)(given)
    return seen(found), calls


def moved(**options: Any) -> Any:
    """Return what batch normalization computes, and the statistics that it moves."""
    mean, variance = (Parameter(one.copy(), f"p{place}") for place, one in enumerate(MOVING[2:]))
    outputs = ops.BatchNorm(**options)(Tensor(X), Tensor(MOVING[0]), Tensor(MOVING[1]), mean, variance)
    return seen(outputs), seen(mean), seen(variance)


def _custom(**options: Any) -> Any:
    made = ops.Custom(**{"func": lambda x: x * 2, "bprop": lambda x, out, dout: dout * 2, **options})
    return seen((made(Tensor(ROWS)), ms.grad(made)(Tensor(ROWS))))


OPERATORS: dict[str, Probe] = {
    **{f"ops.{name}": Probe(operator(getattr(ops, name), ROWS), AXIS) for name in ("Softmax", "LogSoftmax")},
    **{
        f"ops.{name}": Probe(operator(getattr(ops, name), ROWS), {**AXIS, "output_type": ms.int64})
        for name in ("Argmax", "Argmin")
    },
    **{
        f"ops.{name}": Probe(operator(getattr(ops, name), ROWS), {"axis": 1, "keep_dims": True})
        for name in ("ArgMaxWithValue", "ArgMinWithValue")
    },
    **{
        f"ops.{name}": Probe(operator(getattr(ops, name), ROWS, 1), REDUCTION)
        for name in ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd")
    },
    "ops.ReduceSum": Probe(operator(ops.ReduceSum, ROWS, 1), {**REDUCTION, "skip_mode": Refused(True)}),
    **{
        f"ops.{name}": Probe(operator(getattr(ops, name), ROWS > 0, 1), REDUCTION)
        for name in ("ReduceAll", "ReduceAny")
    },
    **{
        f"ops.{name}": Probe(
            operator(getattr(ops, name), X),
            {
                "kernel_size": 2,
                "strides": 2,
                "pad_mode": Beside("same", {"kernel_size": 3}),
                "data_format": Refused("NHWC"),
            },
        )
        for name in ("MaxPool", "AvgPool")
    },
    "ops.Conv2D": Probe(operator(ops.Conv2D, X, WEIGHT, required=(4, 3)), {**CONVOLUTION, "group": Refused(3)}),
    "ops.MatMul": Probe(operator(ops.MatMul, SQUARE, SQUARE), {"transpose_a": True, "transpose_b": True}),
    "ops.BatchMatMul": Probe(operator(ops.BatchMatMul, X, X), {"transpose_a": True, "transpose_b": True}),
    "ops.BatchNorm": Probe(
        moved,
        {
            "is_training": True,
            "epsilon": 0.1,
            "momentum": Beside(0.9, {"is_training": True}),
            "data_format": Refused("NHWC"),
        },
    ),
    "ops.BiasAdd": Probe(operator(ops.BiasAdd, ROWS, MOVING[0]), {"data_format": Refused("NHWC")}),
    "ops.Unstack": Probe(operator(ops.Unstack, ROWS), {"axis": 1, "num": Refused(2)}),
    "ops.Concat": Probe(operator(ops.Concat, (ROWS, ROWS)), {"axis": 1}),
    "ops.Stack": Probe(operator(ops.Stack, (ROWS, ROWS)), {"axis": 1}),
    "ops.Split": Probe(operator(ops.Split, SQUARE), {"axis": Beside(1, {"output_num": 2}), "output_num": 2}),
    "ops.Squeeze": Probe(operator(ops.Squeeze, ROWS[:1, :1]), {"axis": 0}),
    "ops.CumSum": Probe(operator(ops.CumSum, ROWS, 0), {"exclusive": True, "reverse": True}),
    "ops.Custom": Probe(
        _custom,
        {
            "func": lambda x: x * 3,
            "out_shape": Refused(lambda shape: (1,), "returned shape"),
            "out_dtype": np.float16,
            "func_type": Refused("aot"),
            "bprop": lambda x, out, dout: dout,
            "reg_info": Noted({}),
        },
    ),
    "ops.Dropout": Probe(operator(ops.Dropout, ROWS), {"keep_prob": 0.9, "Seed0": 1, "Seed1": 1}),
    "ops.LayerNorm": Probe(
        operator(ops.LayerNorm, ROWS[:, None] * ROWS[:, :, None], MOVING[0], MOVING[1]),
        {
            "begin_norm_axis": Beside(2, {"begin_params_axis": 2}),
            "begin_params_axis": Refused(0, "gamma has shape"),
            "epsilon": Beside(0.1, {"begin_params_axis": 2}),
        },
    ),
    "ops.OneHot": Probe(operator(ops.OneHot, CLASSES, 4, 1.0, 0.0), AXIS),
    "ops.Range": Probe(operator(ops.Range, 0, 4, 1), {"maxlen": Refused(2)}),
    "ops.SparseSoftmaxCrossEntropyWithLogits": Probe(
        operator(ops.SparseSoftmaxCrossEntropyWithLogits, ROWS, CLASSES), {"is_grad": True}
    ),
    "ops.StridedSlice": Probe(operator(ops.StridedSlice, *PLACES), MASKS),
    "ops.TopK": Probe(operator(ops.TopK, ROWS, 2), {"sorted": Noted(False)}),
    "ops.SGD": Probe(
        stepped(
            ops.SGD,
            *(np.ones((2, 2), np.float32) * n for n in (1, 2)),
            np.float32(0.1),
            np.ones((2, 2), np.float32),
            np.float32(0.9),
            np.ones((2, 2), np.float32),
        ),
        {"dampening": 0.5, "weight_decay": 0.1, "nesterov": True},
    ),
    "ops.ApplyMomentum": Probe(
        stepped(ops.ApplyMomentum, ONES, ONES, np.float32(0.1), ONES, np.float32(0.9)),
        {"use_nesterov": True, "use_locking": Noted(True), "gradient_scale": 2.0},
    ),
    "ops.Adam": Probe(
        stepped(ops.Adam, ONES, ONES, ONES, *map(np.float32, (0.5, 0.5, 0.1, 0.9, 0.9, 0.1)), 2 * ONES),
        {"use_locking": Noted(True), "use_nesterov": True},
    ),
    "ops.AdamWeightDecay": Probe(
        stepped(ops.AdamWeightDecay, ONES, ONES, ONES, *map(np.float32, (0.1, 0.9, 0.9, 0.1, 0.1)), 2 * ONES),
        {"use_locking": Noted(True)},
    ),
    "ops.Conv2DBackpropInput": Probe(
        lambda **options: seen(
            ops.Conv2DBackpropInput(4, 3, **options)(Tensor(X[..., :4, :4]), Tensor(WEIGHT), Tensor(X))
        ),
        {
            "mode": Refused(0),
            "pad_mode": Refused("same", "dy has shape"),
            "pad": Refused(1, "pad_mode"),
            "stride": Refused(2, "dy has shape"),
            "dilation": Refused(2, "dy has shape"),
            "group": Refused(3),
            "data_format": Refused("NHWC"),
        },
    ),
    "ops.HyperMap": Probe(_mapped, {"ops": ops.Square(), "reverse": True}),
    "ops.MultitypeFuncGraph": Probe(
        lambda **options: ops.MultitypeFuncGraph("f", **options).name, {"read_value": Noted(True)}
    ),
    "ops.flatten": Probe(function(ops.flatten, X), {"order": Refused("F"), "start_dim": 2, "end_dim": 2}),
    "ops.arange": Probe(
        lambda **options: seen(ops.arange(**{"start": 1} | options)),
        {"start": 2, "end": 9, "step": Beside(2, {"end": 9}), **CONSTANTS},
    ),
    "ops.range": Probe(function(ops.range, 0, 4, 1), {"maxlen": Refused(2)}),
    "ops.argmax": Probe(function(ops.argmax, ROWS), {"dim": 0, "keepdim": Beside(True, {"dim": 0})}),
    "ops.argmin": Probe(function(ops.argmin, ROWS), {"axis": 0, "keepdims": Beside(True, {"axis": 0})}),
    "ops.clip_by_global_norm": Probe(
        function(ops.clip_by_global_norm, (Tensor(ROWS),)), {"clip_norm": 0.5, "use_norm": Refused(1.0)}
    ),
    "ops.clip_by_norm": Probe(
        function(ops.clip_by_norm, ROWS, 0.5), {"norm_type": Refused(1.0), "error_if_nonfinite": Refused(True)}
    ),
    "ops.clip_by_value": Probe(
        lambda **options: seen(
            ops.clip_by_value(Tensor(ROWS), **{"clip_value_min": -1.0, "clip_value_max": 1.0} | options)
        ),
        {"clip_value_min": 0.0, "clip_value_max": 0.5},
    ),
    "ops.concat": Probe(function(ops.concat, (ROWS, ROWS)), {"axis": 1}),
    "ops.stack": Probe(function(ops.stack, (ROWS, ROWS)), {"axis": 1}),
    "ops.unstack": Probe(function(ops.unstack, ROWS), {"axis": 1}),
    "ops.split": Probe(function(ops.split, SQUARE, 2), {"axis": 1}),
    "ops.squeeze": Probe(function(ops.squeeze, ROWS[:1, :1]), {"axis": 0}),
    "ops.cumsum": Probe(function(ops.cumsum, ROWS, 0), CONSTANTS),
    "ops.dropout": Probe(function(ops.dropout, ROWS), {"p": 0.9, "training": False, "seed": 5}),
    "ops.eye": Probe(function(ops.eye, 2), {"m": 3, **CONSTANTS}),
    "ops.full": Probe(function(ops.full, (2,), 3), CONSTANTS),
    "ops.ones": Probe(function(ops.ones, (2,)), CONSTANTS),
    "ops.zeros": Probe(function(ops.zeros, (2,)), CONSTANTS),
    "ops.scalar_to_tensor": Probe(function(ops.scalar_to_tensor, 2), CONSTANTS),
    "ops.gelu": Probe(function(ops.gelu, ROWS), {"approximate": Refused("erf")}),
    "ops.layer_norm": Probe(
        function(ops.layer_norm, ROWS, (4,)), {"weight": Tensor(MOVING[1]), "bias": Tensor(MOVING[1]), "eps": 0.1}
    ),
    "ops.log_softmax": Probe(function(ops.log_softmax, ROWS), AXIS),
    "ops.softmax": Probe(function(ops.softmax, ROWS), {**AXIS, "dtype": ms.float64}),
    "ops.mean": Probe(function(ops.mean, ROWS), {"axis": 0, "keep_dims": True}),
    "ops.one_hot": Probe(function(ops.one_hot, CLASSES, 4), {"on_value": 2, "off_value": 3, "axis": 0}),
    "ops.pad": Probe(function(ops.pad, ROWS, (1, 1)), {"mode": Refused("reflect"), "value": 2.0}),
    **{
        f"ops.reduce_{name}": Probe(function(getattr(ops, f"reduce_{name}"), ROWS), AXIS)
        for name in ("max", "mean", "min", "sum")
    },
    "ops.strided_slice": Probe(function(ops.strided_slice, *PLACES), MASKS),
    "ops.topk": Probe(function(ops.topk, ROWS, 2), {"dim": 0, "largest": False, "sorted": Noted(False)}),
}
