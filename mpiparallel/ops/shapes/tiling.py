"""A tensor repeated side by side."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.errors import ShapeError
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.operator import Kernel, Operator, register
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.reductions.reduction import ReduceSum

Tensors = Sequence[Tensor]


@register
class Tile(Operator):
    """The tensor repeated ``multiples[d]`` times along each dim ``d``; leading dims of one element may be added.

    A strategy is for the dims of the output, as in MindSpore. A dim that is not repeated is cut as in the input. The
    number of parts of a repeated dim must divide its multiple, so that each rank repeats the whole input.

    Examples
    --------
    >>> import numpy as np
    >>> Tile()(np.array([1, 2]), (2, 2)).asnumpy().tolist()
    [[1, 2, 1, 2], [1, 2, 1, 2]]
    """

    multiples: tuple[int, ...] = ()

    def __call__(self, input_x: Any, multiples: Any) -> Any:
        return Operator.__call__(self.configured(multiples=tuple(int(count) for count in multiples)), input_x)

    def extents(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return ``shape`` with a leading 1 for each dim that the output has more."""
        return (*(1,) * (len(self.multiples) - len(shape)), *shape)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        shape = inputs[0].shape
        if len(self.multiples) < len(shape) or any(count < 1 for count in self.multiples):
            raise ShapeError(f"multiples {self.multiples} must be at least 1, for each of the {len(shape)} dims of x")
        pairs = zip(self.extents(shape), self.multiples, strict=True)
        return (TensorSpec(tuple(extent * count for extent, count in pairs), inputs[0].dtype),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        output: Labels = tuple(f"d{dim}" for dim in range(len(self.multiples)))
        repeated = {f"d{dim}": count for dim, count in enumerate(self.multiples) if count > 1}
        once = tuple(None if label in repeated else label for label in output)
        source = once[len(output) - len(inputs[0].shape) :]
        batch = next((label for label in source if label), None)
        return Equation((source,), (output,), batch=batch, divisors=repeated, strategy_inputs=(output,))

    def local(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> Tile:
        held = zip(outputs[0].shape, self.extents(inputs[0].shape), self.multiples, strict=True)
        return self.configured(
            multiples=tuple(count if count == 1 or not extent else whole // extent for whole, extent, count in held)
        )

    def interleaved(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the extents of the output with each repeated dim as two, and the places of the first of the two."""
        split: list[int] = []
        repeated = []
        for extent, count in zip(self.extents(shape), self.multiples, strict=True):
            if count > 1:
                repeated.append(len(split))
                split.append(count)
            split.append(extent)
        return tuple(split), tuple(repeated)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        split, repeated = self.interleaved(inputs[0].shape)
        once = tuple(1 if place in repeated else extent for place, extent in enumerate(split))
        return partial(_copy, runtime.array_module, inputs[0], once, outputs[0].reshape(split))

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        shape = inputs[0].shape
        split, repeated = self.interleaved(shape)
        if not repeated:
            return (gradients[0].reshape(shape),)
        return (ReduceSum()(gradients[0].reshape(split), repeated).reshape(shape),)


def _copy(xp: Any, source: Array, shape: tuple[int, ...], target: Array) -> None:
    xp.copyto(target, source.reshape(shape))
