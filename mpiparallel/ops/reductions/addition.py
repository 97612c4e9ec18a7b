"""Sums of several tensors, and of a tensor and one number a channel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.dtype import is_floating
from mpiparallel.errors import ShapeError
from mpiparallel.graph.elementwise import promote
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression.term import Term
from mpiparallel.graph.input_checks import check_shape
from mpiparallel.graph.operator import Kernel, Operator, register
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.images.window import image_format
from mpiparallel.ops.reductions.reduction import ReduceSum

Tensors = Sequence[Tensor]


@register
class AddN(Operator):
    """The sum of tensors of one shape.

    Raises
    ------
    ShapeError
        When shapes differ, or there is no tensor.

    Examples
    --------
    >>> import numpy as np
    >>> AddN()([np.ones(2), np.ones(2), np.ones(2)]).asnumpy().tolist()
    [3.0, 3.0]
    """

    saved_names = ("MakeTuple", "AddN")

    def __call__(self, x: Sequence[Any]) -> Any:
        if not x:
            raise ShapeError(f"{self.name}: there is no tensor to add")
        return super().__call__(*x)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        shape = inputs[0].shape
        check_shape(shape, **{f"tensor {position}": spec for position, spec in enumerate(inputs)})
        return (TensorSpec(shape, promote(*(spec.dtype for spec in inputs))),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        return Equation.same(*(len(spec.shape) for spec in inputs))

    def expression(self, *inputs: Term) -> Sequence[Term] | None:
        if not all(is_floating(one.dtype) for one in inputs):
            return None
        total = inputs[0]
        for term in inputs[1:]:
            total = total + term
        return (total,)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, target = runtime.array_module, outputs[0]
        if len(inputs) == 1:
            return partial(xp.copyto, target, inputs[0])
        first, second, *others = inputs

        def run() -> None:
            xp.add(first, second, out=target)
            for term in others:
                xp.add(target, term, out=target)

        return run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (gradients[0],) * len(inputs)


@register
class BiasAdd(Operator):
    """``input_x`` (n, c, ...) plus ``bias`` (c,).

    Parameters
    ----------
    data_format : str
        "NCHW".

    Raises
    ------
    ShapeError
        When the bias has not as many elements as dim 1.

    Examples
    --------
    >>> import numpy as np
    >>> BiasAdd()(np.zeros((1, 2)), np.array([1.0, 2.0])).asnumpy().tolist()
    [[1.0, 2.0]]
    """

    reuses = (0,)
    saved_names = ("BiasAdd", "Add")

    def __init__(self, data_format: str = "NCHW") -> None:
        self.data_format = image_format(self.name, data_format)

    def __call__(self, input_x: Any, bias: Any) -> Any:
        return super().__call__(input_x, bias)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        x, bias = inputs
        if len(x.shape) < 2:
            raise ShapeError(f"input_x has shape {x.shape}; it must be (n, channels, ...)")
        check_shape(x.shape[1:2], bias=bias)
        return (TensorSpec(x.shape, promote(x.dtype, bias.dtype)),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        labels = tuple(f"d{dim}" for dim in range(len(inputs[0].shape)))
        return Equation((labels, labels[1:2]), (labels,), batch=labels[0])

    def expression(self, *inputs: Term) -> Sequence[Term] | None:
        x, bias = inputs
        column = (*bias.shape, *(1,) * (len(x.shape) - 2))
        return (x + bias.reshape(column),) if is_floating(x.dtype) and is_floating(bias.dtype) else None

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        x, bias = inputs
        spread = bias.reshape((-1, *(1,) * (x.ndim - 2)))
        return partial(runtime.array_module.add, x, spread, out=outputs[0])

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        others = (0, *range(2, inputs[0].ndim))
        return gradients[0], ReduceSum()(gradients[0], others)
