"""Softmax and its logarithm, with their gradients fused into one operator each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.expression.term import Term, call, reduce
from mpiparallel.graph.input_checks import check_floating, check_shape, normal_axis
from mpiparallel.graph.operator import Operator, register
from mpiparallel.graph.tensor import Tensor

Tensors = Sequence[Tensor]


class AlongAxis(Operator):
    """An operator of tensors of one shape that computes row after row along dim ``axis``, which no strategy may cut."""

    def __init__(self, axis: int | tuple[int] = -1) -> None:
        self.axis = axis if isinstance(axis, int) else int(axis[0])

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        check_floating(x=inputs[0])
        normal_axis(self.axis, len(inputs[0].shape))
        for position, spec in enumerate(inputs):
            check_shape(inputs[0].shape, **{f"input {position}": spec})
        return (inputs[0],)

    def equation(self, *inputs: TensorSpec) -> Equation:
        rank = len(inputs[0].shape)
        axis = normal_axis(self.axis, rank)
        rule = Equation.same(*(rank,) * len(inputs), whole=(axis,))
        labels = [label for label in rule.labels if label not in rule.whole]
        return Equation(rule.inputs, rule.outputs, rule.whole, batch=labels[0] if labels else None)

    def along(self, function: str, x: Term) -> Term:
        """Return the ``sum`` or the ``max`` of each row."""
        return reduce(function, x, (self.axis,))


@register
class Softmax(AlongAxis):
    """``exp(x) / sum(exp(x))`` along dim ``axis``, computed without overflow.

    Parameters
    ----------
    axis : int
        The dim, negative ones from the right.

    Examples
    --------
    >>> import numpy as np
    >>> Softmax()(np.zeros((1, 4))).asnumpy()
    array([[0.25, 0.25, 0.25, 0.25]])
    """

    reuses = (0,)

    def __call__(self, logits: Any) -> Any:
        return super().__call__(logits)

    def expression(self, *inputs: Term) -> Sequence[Term]:
        x = inputs[0]
        exponential = call("exp", x - self.along("max", x))
        return (exponential * (1.0 / self.along("sum", exponential)),)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (SoftmaxGrad(self.axis)(outputs[0], gradients[0]),)


@register
class SoftmaxGrad(AlongAxis):
    """``y * (dy - sum(y * dy))`` along dim ``axis``, where ``y`` is the output of Softmax.

    Parameters
    ----------
    axis : int
        The dim, negative ones from the right.

    Examples
    --------
    >>> SoftmaxGrad()([0.5, 0.5], [1.0, 0.0]).asnumpy().tolist()
    [0.25, -0.25]
    """

    reuses = (0, 1)

    def __call__(self, y: Any, dy: Any) -> Any:
        return super().__call__(y, dy)

    def expression(self, *inputs: Term) -> Sequence[Term]:
        y, dy = inputs
        return (y * (dy - self.along("sum", y * dy)),)


@register
class LogSoftmax(AlongAxis):
    """The logarithm of softmax along dim ``axis``.

    Parameters
    ----------
    axis : int
        The dim, negative ones from the right.

    Examples
    --------
    >>> LogSoftmax()([0.0, 0.0]).asnumpy().round(4)
    array([-0.6931, -0.6931], dtype=float32)
    """

    reuses = (0,)

    def __call__(self, logits: Any) -> Any:
        return super().__call__(logits)

    def expression(self, *inputs: Term) -> Sequence[Term]:
        x = inputs[0]
        shifted = x - self.along("max", x)
        return (shifted - call("log", self.along("sum", call("exp", shifted))),)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (LogSoftmaxGrad(self.axis)(outputs[0], gradients[0]),)


@register
class LogSoftmaxGrad(AlongAxis):
    """``dy - exp(y) * sum(dy)`` along dim ``axis``, where ``y`` is the output of LogSoftmax.

    Parameters
    ----------
    axis : int
        The dim, negative ones from the right.

    Examples
    --------
    >>> LogSoftmaxGrad()([0.0], [3.0]).asnumpy().tolist()
    [0.0]
    """

    reuses = (0, 1)

    def __call__(self, y: Any, dy: Any) -> Any:
        return super().__call__(y, dy)

    def expression(self, *inputs: Term) -> Sequence[Term]:
        y, dy = inputs
        return (dy - call("exp", y) * self.along("sum", dy),)
