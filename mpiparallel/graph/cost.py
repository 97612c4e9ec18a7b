"""What an operator costs: how much it computes, and how many bytes it reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.equation import Equation

ELEMENTWISE: Final = "element-wise"
"""The name of the kernels of all element-wise operators."""


@dataclass(frozen=True)
class Cost:
    """Floating-point ``operations``, a multiplication and an addition being two, and bytes of memory.

    ``bytes_gathered`` are those of the matrices that a kernel gathers from what it reads before it multiplies them,
    ``bytes_turned`` of what it transposes.
    """

    operations: int
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_gathered: int = 0
    bytes_turned: int = 0


def counted_operations(equation: Equation, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> int:
    """Return how many operations an equation stands for on tensors, or parts of them, of these shapes.

    Where inputs have a label in common that no output has, products are summed over it: two operations for each
    combination of labels. Else there is one for each element of the largest tensor.

    >>> import numpy as np
    >>> left, right, product = (TensorSpec(shape, np.dtype(np.float32)) for shape in ((2, 3), (3, 5), (2, 5)))
    >>> counted_operations(Equation.parse("mk,kn->mn"), [left, right], [product])
    60
    """
    kept = {label for labels in equation.outputs for label in labels}
    contracted = [
        label
        for label in dict.fromkeys(label for labels in equation.inputs for label in labels)
        if label is not None and label not in kept and sum(label in labels for labels in equation.inputs) > 1
    ]
    if not contracted:
        return max((spec.size for spec in (*inputs, *outputs)), default=0)
    extents: dict[str, int] = {}
    for labels, spec in zip(equation.inputs, inputs, strict=True):
        for label, extent in zip(labels, spec.shape, strict=True):
            if label is not None:
                extents[label] = max(extents.get(label, 1), extent)
    return 2 * prod(extents.values())
