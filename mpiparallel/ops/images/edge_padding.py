"""Elements of one value around a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.operator import Kernel, Operator, register
from mpiparallel.graph.tensor import Tensor

Tensors = Sequence[Tensor]


@register
class Pad(Operator):
    """The tensor with ``paddings[d]`` elements of ``value`` around it in each dim ``d``.

    Dims without padding may be cut.

    Parameters
    ----------
    paddings : sequence of (int, int)
        Before and after, in elements, for each dim.
    value : number
        Of the elements around.

    Raises
    ------
    ConfigurationError
        For a negative count.
    ShapeError
        Unless each dim has its pair.

    Examples
    --------
    >>> Pad(((0, 0), (1, 2)))(np.ones((1, 2))).asnumpy().tolist()
    [[0.0, 1.0, 1.0, 0.0, 0.0]]
    """

    def __init__(self, paddings: Sequence[Sequence[int]], value: float = 0) -> None:
        pairs = tuple(tuple(int(count) for count in pair) for pair in paddings)
        if any(len(pair) != 2 or min(pair) < 0 for pair in pairs):
            raise ConfigurationError(f"Pad: paddings {paddings!r} must be pairs (before, after) of at least 0")
        self.paddings = pairs
        self.value = value

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        shape = inputs[0].shape
        if len(shape) != len(self.paddings):
            raise ShapeError(f"{len(self.paddings)} pairs of paddings for {shape}; give each of the dims one")
        padded = (extent + before + after for extent, (before, after) in zip(shape, self.paddings, strict=True))
        return (TensorSpec(tuple(padded), inputs[0].dtype),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        labels = tuple(None if any(pair) else f"d{dim}" for dim, pair in enumerate(self.paddings))
        return Equation((labels,), (labels,), batch=next((one for one in labels if one), None))

    def interior(self, shape: tuple[int, ...]) -> tuple[slice, ...]:
        """Return where the tensor lies in an output of ``shape``."""
        return tuple(slice(before, n - after) for n, (before, after) in zip(shape, self.paddings, strict=True))

    def borders(self, target: Array) -> list[Array]:
        """Return views of what lies around the tensor in the output; together they are all of it, and disjoint."""
        inside = self.interior(target.shape)
        found = []
        for dim, part in enumerate(inside):
            found += [target[(*inside[:dim], slice(part.start))], target[(*inside[:dim], slice(part.stop, None))]]
        return [border for border in found if border.size]

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        target, source, copy = outputs[0], inputs[0], runtime.array_module.copyto
        place, borders, value = target[self.interior(target.shape)], self.borders(target), self.value

        def run() -> None:
            for border in borders:
                border[...] = value
            copy(place, source)

        return run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (gradients[0][self.interior(outputs[0].shape)],)


def padding_pairs(padding: Sequence[Any], rank: int) -> tuple[tuple[int, int], ...]:
    """Return (before, after) for each of ``rank`` dims from such pairs, or from one flat row for the last dims.

    The flat row starts with the last dim, as PyTorch's does.

    >>> padding_pairs((1, 2), 2)
    ((0, 0), (1, 2))
    """
    if all(not isinstance(item, (int, np.integer)) for item in padding):
        return tuple((int(before), int(after)) for before, after in padding)
    if len(padding) % 2 or len(padding) > 2 * rank:
        raise ShapeError(f"pad: padding {padding!r} must be a (before, after) for each of at most {rank} dims")
    pairs = [(int(padding[place]), int(padding[place + 1])) for place in range(0, len(padding), 2)]
    return (*((0, 0),) * (rank - len(pairs)), *pairs[::-1])
