"""What each operator must compute, written in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

from mpiparallel.backend.counter_random import RandomBox, stream_key
from mpiparallel.graph.operator import Operator
from mpiparallel.layout.box import Box
from mpiparallel.testing.operator_case import OperatorCase
from tests.conformance.cases.array_expected import ARRAY_FORMULAS
from tests.conformance.cases.attention_cases import ATTENTION_FORMULAS
from tests.conformance.cases.elementwise_cases import ELEMENTWISE_FORMULAS
from tests.conformance.cases.image_expected import IMAGE_FORMULAS

Array = Any
Formula = Callable[..., Any]


def expected(case: OperatorCase) -> tuple[Array, ...]:
    """Return the outputs of a case; for an operator that updates parameters, their new values."""
    operator = case.build()
    result = FORMULAS[operator.name](operator, *case.inputs, *case.arguments)
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _ufunc(function: Formula) -> Formula:
    return lambda operator, *inputs: function(*inputs)


def _reduce(function: Formula) -> Formula:
    def formula(operator: Any, x: Array, axis: Any) -> Array:
        return function(x, axis=axis if axis != () else None, keepdims=operator.keep_dims)

    return formula


def _product(operator: Any, x: Array, y: Array) -> Array:
    left = np.swapaxes(x, -1, -2) if operator.transpose_a else x
    right = np.swapaxes(y, -1, -2) if operator.transpose_b else y
    return np.einsum("...ij,...jk->...ik", left, right)


def _gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _softmax(x: Array, axis: int) -> Array:
    return np.exp(x) / np.exp(x).sum(axis, keepdims=True)


def _split(operator: Any, x: Array) -> Array:
    return np.split(x, operator.output_num, operator.axis)


def _slice_grad(operator: Any, gradient: Array, x: Array) -> Array:
    zeros = np.zeros_like(x)
    zeros[operator.index] = gradient
    return zeros


def _layer_norm(operator: Any, x: Array, gamma: Array, beta: Array) -> tuple[Array, ...]:
    axes = tuple(range(operator.begin_norm_axis % x.ndim, x.ndim))
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + operator.epsilon) * gamma + beta, mean, variance


def _layer_norm_grad(
    operator: Any, dy: Array, x: Array, mean: Array, variance: Array, gamma: Array
) -> tuple[Array, ...]:
    axes = tuple(range(operator.begin_norm_axis % x.ndim, x.ndim))
    deviation = np.sqrt(variance + operator.epsilon)
    normal, scaled = (x - mean) / deviation, dy * gamma
    product = (normal * scaled).mean(axes, keepdims=True)
    dx = (scaled - scaled.mean(axes, keepdims=True) - normal * product) / deviation
    rows = tuple(range(x.ndim - gamma.ndim))
    return dx, (dy * normal).sum(rows), dy.sum(rows)


def _gather(operator: Any, table: Array, indices: Array, axis: int) -> Array:
    batch_dims = operator.batch_dims + (indices.ndim if operator.batch_dims < 0 else 0)
    return _gather_each(table, indices, axis % table.ndim, batch_dims)


def _gather_each(table: Array, indices: Array, axis: int, batch_dims: int) -> Array:
    if not batch_dims:
        return np.take(table, indices, axis)
    pairs = zip(table, indices, strict=True)
    return np.stack([_gather_each(*pair, axis - 1, batch_dims - 1) for pair in pairs])


def _gather_grad(operator: Any, indices: Array, dy: Array, table: Array) -> Array:
    result = np.zeros_like(np.moveaxis(table, operator.axis, 0))
    rows = np.moveaxis(dy, range(operator.axis, operator.axis + indices.ndim), range(indices.ndim))
    for place in np.ndindex(indices.shape):
        result[indices[place]] += rows[place]
    return np.moveaxis(result, 0, operator.axis)


def _gather_last(operator: Operator, x: Array, index: Array) -> Array:
    return np.take_along_axis(x, index[..., None].astype(np.int64), -1)[..., 0]


def _gather_last_grad(operator: Operator, dy: Array, index: Array, x: Array) -> Array:
    result = np.zeros_like(x)
    np.put_along_axis(result, index[..., None].astype(np.int64), dy[..., None], -1)
    return result


def _one_hot(operator: Any, indices: Array, on_value: Array, off_value: Array) -> Array:
    hit = indices[..., None] == np.arange(5)
    return np.moveaxis(np.where(hit, on_value, off_value), -1, operator.axis)


def _dropout(operator: Any, x: Array) -> tuple[Array, Array]:
    mask = np.ones(x.shape, bool)
    if operator.keep_prob < 1:
        key = stream_key(0, *operator.seeds, operator.scope, 0)
        RandomBox(np, x.shape, Box.whole(x.shape)).keep(key, operator.keep_prob, mask)
    return x * mask / operator.keep_prob, mask


def _cross_entropy(operator: Operator, logits: Array, labels: Array) -> tuple[Array, Array]:
    softmax = _softmax(logits, -1)
    return -(labels * np.log(softmax)).sum(-1), softmax - labels


def _sparse_cross_entropy(operator: Any, logits: Array, labels: Array) -> Array:
    loss, gradient = _cross_entropy(operator, logits, np.eye(logits.shape[1])[labels])
    return gradient / len(labels) if operator.is_grad else loss.mean()


def _momentum(operator: Any, variable: Array, mean: Array, rate: Array, gradient: Array, momentum: Array) -> Any:
    scaled = gradient * operator.gradient_scale
    mean = mean * momentum + scaled
    return variable - rate * (scaled + momentum * mean if operator.use_nesterov else mean), mean


def _sgd(
    operator: Any, variable: Array, gradient: Array, rate: Array, mean: Array, momentum: Array, first: Array
) -> Any:
    step = gradient + operator.weight_decay * variable
    if momentum == 0:
        return variable - rate * step, mean, first
    mean = np.where(first > 0, step, momentum * mean + (1 - operator.dampening) * step)
    step = step + momentum * mean if operator.nesterov else mean
    return variable - rate * step, mean, np.zeros_like(first)


def _adam(
    operator: Any, variable: Array, m: Array, v: Array, power1: Array, power2: Array, rate: Array, *rest: Array
) -> Any:
    beta1, beta2, epsilon, gradient = rest
    m = beta1 * m + (1 - beta1) * gradient
    v = beta2 * v + (1 - beta2) * gradient**2
    direction = beta1 * m + (1 - beta1) * gradient if operator.use_nesterov else m
    return variable - rate * np.sqrt(1 - power2) / (1 - power1) * direction / (np.sqrt(v) + epsilon), m, v


def _adam_weight_decay(operator: Operator, variable: Array, m: Array, v: Array, rate: Array, *rest: Array) -> Any:
    beta1, beta2, epsilon, decay, gradient = rest
    m = beta1 * m + (1 - beta1) * gradient
    v = beta2 * v + (1 - beta2) * gradient**2
    return variable - rate * (m / (np.sqrt(v) + epsilon) + decay * variable), m, v


FORMULAS: dict[str, Formula] = {
    "Add": _ufunc(lambda x, y: x + y),
    "Sub": _ufunc(lambda x, y: x - y),
    "Mul": _ufunc(lambda x, y: x * y),
    "Div": _ufunc(lambda x, y: x / y),
    "RealDiv": _ufunc(lambda x, y: x / y),
    "Pow": _ufunc(lambda x, y: x**y),
    "Maximum": _ufunc(np.maximum),
    "Minimum": _ufunc(np.minimum),
    "Equal": _ufunc(np.equal),
    "FloatStatus": lambda operator, x: np.array([not np.isfinite(x).all()], np.float32),
    "NotEqual": _ufunc(np.not_equal),
    "Less": _ufunc(np.less),
    "LessEqual": _ufunc(np.less_equal),
    "Greater": _ufunc(np.greater),
    "GreaterEqual": _ufunc(np.greater_equal),
    "LogicalAnd": _ufunc(np.logical_and),
    "LogicalOr": _ufunc(np.logical_or),
    "LogicalNot": _ufunc(np.logical_not),
    "Identity": _ufunc(np.array),
    "Select": _ufunc(np.where),
    "Cast": _ufunc(lambda x, dtype: x.astype(dtype)),
    "ReluGrad": _ufunc(lambda dy, y: np.where(y > 0, dy, 0)),
    "GeluGrad": _ufunc(lambda dy, x: dy * (_gelu(x + 1e-6) - _gelu(x - 1e-6)) / 2e-6),
    "Custom": _ufunc(np.sin),
    "SigmoidGrad": _ufunc(lambda y, dy: dy * y * (1 - y)),
    "MatMul": _product,
    "BatchMatMul": _product,
    "ReduceSum": _reduce(np.sum),
    "ReduceMean": _reduce(np.mean),
    "ReduceMax": _reduce(np.max),
    "ReduceMin": _reduce(np.min),
    "Reshape": _ufunc(np.reshape),
    "Transpose": _ufunc(np.transpose),
    "ExpandDims": _ufunc(np.expand_dims),
    "Squeeze": lambda operator, x: np.squeeze(x, operator.axis or None),
    "BroadcastTo": lambda operator, x: np.broadcast_to(x, tuple(6 if n == -1 else n for n in operator.shape)),
    "Split": _split,
    "Concat": lambda operator, *inputs: np.concatenate(inputs, operator.axis),
    "SliceGrad": _slice_grad,
    "ZerosLike": _ufunc(np.zeros_like),
    "OnesLike": _ufunc(np.ones_like),
    "StopGradient": _ufunc(np.copy),
    "Fill": _ufunc(lambda value: np.full((6, 5), value)),
    "Softmax": lambda operator, x: _softmax(x, operator.axis),
    "SoftmaxGrad": lambda operator, y, dy: y * (dy - (y * dy).sum(operator.axis, keepdims=True)),
    "LogSoftmax": lambda operator, x: np.log(_softmax(x, operator.axis)),
    "LogSoftmaxGrad": lambda operator, y, dy: dy - np.exp(y) * dy.sum(operator.axis, keepdims=True),
    "LayerNorm": _layer_norm,
    "LayerNormGrad": _layer_norm_grad,
    "Gather": _gather,
    "GatherGrad": _gather_grad,
    "GatherLast": _gather_last,
    "GatherLastGrad": _gather_last_grad,
    "OneHot": _one_hot,
    "SoftmaxCrossEntropyWithLogits": _cross_entropy,
    "SparseSoftmaxCrossEntropyWithLogits": _sparse_cross_entropy,
    "SumExp": _ufunc(lambda x, shift: np.exp(x - shift).sum(-1, keepdims=True)),
    "SumExpGrad": _ufunc(lambda dy, x, shift: np.exp(x - shift) * dy),
    "Dropout": _dropout,
    "DropoutGrad": lambda operator, dy, mask: dy * mask / operator.keep_prob,
    "ApplyMomentum": _momentum,
    "SGD": _sgd,
    "Adam": _adam,
    "AdamWeightDecay": _adam_weight_decay,
    "Assign": _ufunc(lambda variable, value: value),
    "AssignAdd": _ufunc(np.add),
    "AssignSub": _ufunc(np.subtract),
    **ELEMENTWISE_FORMULAS,
    **IMAGE_FORMULAS,
    **ATTENTION_FORMULAS,
    **ARRAY_FORMULAS,
}
"""By the operator's name: its outputs from the operator, its inputs and its arguments."""
