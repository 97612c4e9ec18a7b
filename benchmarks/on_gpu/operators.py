"""Each case of one operator, or of a few that become one kernel: a function of tensors, and what it is given."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import ml_dtypes
import numpy as np
from on_gpu.cases import Case

from mpiparallel.graph.attention.blocked_attention import BlockedAttention, BlockedAttentionGrad
from mpiparallel.ops import operations as P
from mpiparallel.ops.elementwise import GeluGrad
from mpiparallel.ops.losses.softmax_and_log import SoftmaxGrad
from mpiparallel.ops.normalization.layer_normalization import LayerNormGrad

Array = np.ndarray[Any, Any]
Work = tuple[Callable[..., Any], list[Array]]
DTYPES: dict[str, Any] = {
    "float64": np.float64,
    "float32": np.float32,
    "TF32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}
_RANDOM = 1


def numbers(case: Case, *shape: int) -> Array:
    """Return numbers in [-0.5, 0.5) of the case's dtype."""
    values = np.random.default_rng(_RANDOM).random(shape or case.sizes, np.float32) - np.float32(0.5)
    return values.astype(DTYPES[case.dtype], copy=False)


def product(case: Case) -> Work:
    """``x @ y``."""
    m, n, k = case.sizes
    return P.MatMul(), [numbers(case, m, k), numbers(case, k, n)]


def layer_norm(case: Case) -> Work:
    """Rows less their mean, over their deviation."""
    vector = numbers(case, case.sizes[1])
    return lambda *given: P.LayerNorm()(*given)[0], [numbers(case), vector, vector]


def layer_norm_gradient(case: Case) -> Work:
    """The gradients for rows, gamma and beta."""
    ones = np.ones((case.sizes[0], 1), DTYPES[case.dtype])
    return LayerNormGrad(), [numbers(case), numbers(case), ones, ones, numbers(case, case.sizes[1])]


def softmax(case: Case) -> Work:
    """Softmax of rows."""
    return P.Softmax(), [numbers(case)]


def softmax_gradient(case: Case) -> Work:
    """Its gradient, from the output."""
    return SoftmaxGrad(), [numbers(case), numbers(case)]


def cross_entropy_gradient(case: Case) -> Work:
    """The gradient of the mean cross entropy, from logits and labels."""
    labels = np.random.default_rng(_RANDOM).integers(0, case.sizes[1], case.sizes[0], dtype=np.int32)
    return P.SparseSoftmaxCrossEntropyWithLogits(is_grad=True), [numbers(case), labels]


def bias_and_gelu(case: Case) -> Work:
    """``gelu(x + bias)``."""
    return lambda x, bias: P.GeLU()(x + bias), [numbers(case), numbers(case, case.sizes[1])]


def gelu_and_bias_gradient(case: Case) -> Work:
    """The gradient of GELU, and its sum over rows."""

    def gradients(dy: Any, x: Any) -> Any:
        dx = GeluGrad()(dy, x)
        return dx, P.ReduceSum()(dx, 0)

    return gradients, [numbers(case), numbers(case)]


def _attend(case: Case) -> tuple[BlockedAttention, list[Array]]:
    operator = BlockedAttention(1.0, 1 / sqrt(case.sizes[3]), is_causal=case.kind.startswith("causal"))
    return operator, [numbers(case) for _ in range(3)]


def attention(case: Case) -> Work:
    """Attention of heads, without a mask."""
    return _attend(case)


def attention_gradient(case: Case) -> Work:
    """Its gradients for query, key and value."""
    operator, arrays = _attend(case)
    rows = case.sizes[:3]
    sums, drawn = np.full(rows, np.log(rows[2]), np.float32), np.zeros(rows, np.uint64)
    given = [arrays[0], sums, drawn, arrays[0], np.zeros(rows, np.float32)]
    gradient = BlockedAttentionGrad(operator.keep_prob, operator.scale, operator.masked, operator.is_causal)
    return gradient.configured(sums_are_read=False), [*arrays, *given]


def _convolution(kind: Any, order: str) -> Callable[[Case], Work]:
    def work(case: Case) -> Work:
        images, channels, extent, outputs, kernel, stride = case.sizes
        after = -(-extent // stride)
        shapes = {
            "x": (images, channels, extent, extent),
            "w": (outputs, channels, kernel, kernel),
            "y": (images, outputs, after, after),
        }
        operator = kind(outputs, kernel, pad_mode="same", stride=stride)
        return operator, [numbers(case, *shapes[name]) for name in order]

    return work


OPERATORS: dict[str, Callable[[Case], Work]] = {
    "product": product,
    "layer norm": layer_norm,
    "layer norm gradient": layer_norm_gradient,
    "softmax": softmax,
    "softmax gradient": softmax_gradient,
    "cross entropy gradient": cross_entropy_gradient,
    "bias and GELU": bias_and_gelu,
    "GELU gradient and bias gradient": gelu_and_bias_gradient,
    "attention": attention,
    "causal attention": attention,
    "attention gradient": attention_gradient,
    "causal attention gradient": attention_gradient,
    "convolution forward": _convolution(P.Conv2D, "xw"),
    "convolution input gradient": _convolution(P.Conv2DBackpropInput, "ywx"),
    "convolution weight gradient": _convolution(P.Conv2DBackpropFilter, "yxw"),
}
