"""Cross entropy of logits of which each stands for a decision of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpiparallel.graph.blocks import Blockwise
from mpiparallel.graph.expression.term import Term, call
from mpiparallel.graph.operator import register
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.elementwise import Sigmoid

Tensors = Sequence[Tensor]


@register
class SigmoidCrossEntropyWithLogits(Blockwise):
    """``-label * log(sigmoid(x)) - (1 - label) * log(1 - sigmoid(x))`` for each of the logits ``x``.

    Examples
    --------
    >>> import numpy as np
    >>> SigmoidCrossEntropyWithLogits()(np.array([0.0, 1000.0]), np.array([1.0, 1.0])).asnumpy().round(4).tolist()
    [0.6931, 0.0]
    """

    def __call__(self, logits: Any, label: Any) -> Any:
        return super().__call__(logits, label)

    def expression(self, *inputs: Term) -> Sequence[Term]:
        x, label = inputs
        tail = call("log1p", call("exp", -call("absolute", x)))
        return (tail - x * label + call("maximum", x, 0.0),)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        logits, label = inputs
        return (Sigmoid()(logits) - label) * gradients[0], -logits * gradients[0]
