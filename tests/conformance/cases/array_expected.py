"""What operators that pad, slice, stack, repeat, rank and add up must compute, written in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any
Formula = Callable[..., Any]


def _strided_slice(operator: Any, x: Array, begin: Any, end: Any = None, strides: Any = None) -> Array:
    return x[begin] if end is None else x[: end[0], begin[1] :: strides[1], begin[2]]


def _slice(operator: Any, x: Array, begin: Any, size: Any) -> Array:
    ends = [None if count == -1 else start + count for start, count in zip(begin, size, strict=True)]
    return x[tuple(slice(start, end) for start, end in zip(begin, ends, strict=True))]


def _unstack(operator: Any, x: Array) -> list[Array]:
    return [np.take(x, place, operator.axis) for place in range(x.shape[operator.axis])]


def _place(function: Formula) -> Formula:
    return lambda operator, x: function(x, operator.axis, keepdims=operator.keep_dims).astype(operator.output_type)


def _place_and_value(places: Formula, values: Formula) -> Formula:
    def formula(operator: Any, x: Array) -> tuple[Array, Array]:
        kept = {"axis": operator.axis, "keepdims": operator.keep_dims}
        return places(x, **kept).astype(np.int32), values(x, **kept)

    return formula


def _top(operator: Any, x: Array, k: int) -> tuple[Array, Array]:
    order = np.argsort(-x, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(x, order, -1), order.astype(np.int32)


def _cumulative_sum(operator: Any, x: Array, axis: int) -> Array:
    rows = np.moveaxis(x, axis, 0)
    sums = np.zeros_like(rows)
    for place in range(len(rows)):
        first = place + 1 if operator.exclusive else place
        sums[place] = (
            rows[first:].sum(0) if operator.reverse else rows[: len(rows[: place + 1]) - operator.exclusive].sum(0)
        )
    return np.moveaxis(sums, 0, axis)


def _reduce(function: Formula) -> Formula:
    return lambda operator, x, axis: function(x, axis=None if axis == () else axis, keepdims=operator.keep_dims)


def _adaptive_mean(operator: Any, x: Array) -> Array:
    extents = [size or given for size, given in zip(operator.output_size, x.shape[2:], strict=True)]
    target = np.zeros((*x.shape[:2], *extents))
    for row, column in np.ndindex(*extents):
        (top, bottom), (left, right) = (
            (place * given // size, -(-(place + 1) * given // size))
            for place, size, given in zip((row, column), extents, x.shape[2:], strict=True)
        )
        target[:, :, row, column] = x[:, :, top:bottom, left:right].mean((2, 3))
    return target


def _logistic(operator: Any, x: Array, label: Array) -> Array:
    probability = 1 / (1 + np.exp(-x))
    return -label * np.log(probability) - (1 - label) * np.log(1 - probability)


ARRAY_FORMULAS: dict[str, Formula] = {
    "StridedSlice": _strided_slice,
    "Slice": _slice,
    "Pad": lambda operator, x: np.pad(x, operator.paddings, constant_values=operator.value),
    "Stack": lambda operator, *inputs: np.stack(inputs, operator.axis),
    "Unstack": _unstack,
    "Tile": lambda operator, x, multiples: np.tile(x, multiples),
    "Flatten": lambda operator, x: x.reshape(len(x), -1),
    "Argmax": _place(np.argmax),
    "Argmin": _place(np.argmin),
    "ArgMaxWithValue": _place_and_value(np.argmax, np.max),
    "ArgMinWithValue": _place_and_value(np.argmin, np.min),
    "TopK": _top,
    "CumSum": _cumulative_sum,
    "ReduceProd": _reduce(np.prod),
    "ReduceAll": _reduce(np.all),
    "ReduceAny": _reduce(np.any),
    "AddN": lambda operator, *inputs: sum(inputs),
    "BiasAdd": lambda operator, x, bias: np.moveaxis(np.moveaxis(x, 1, -1) + bias, -1, 1),
    "L2Loss": lambda operator, x: (x * x).sum() / 2,
    "SigmoidCrossEntropyWithLogits": _logistic,
    "AdaptiveAvgPool2D": _adaptive_mean,
}
"""By the operator's name: its outputs from the operator, its inputs and its arguments."""
