"""Gradients kept small."""

from __future__ import annotations

from collections.abc import Sequence

from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.arithmetic import Maximum
from mpiparallel.ops.elementwise import Sqrt, Square
from mpiparallel.ops.reduction import ReduceSum


def clip_by_global_norm(x: Sequence[Tensor], clip_norm: float = 1.0) -> tuple[Tensor, ...]:
    """Return tensors scaled so that the norm of all their elements together is at most ``clip_norm``.

    The norm is that of the whole tensors, wherever they are cut. Raises ConfigurationError unless ``clip_norm`` is
    above 0.

    >>> [part.asnumpy().tolist() for part in clip_by_global_norm((Tensor([3.0]), Tensor([4.0])), 1.0)]
    [[0.6000000238418579], [0.800000011920929]]
    """
    if not clip_norm > 0:
        raise ConfigurationError(f"clip_by_global_norm: clip_norm {clip_norm!r} must be above 0")
    squares = [ReduceSum()(Square()(part)) for part in x]
    total = squares[0]
    for square in squares[1:]:
        total = total + square
    scale = clip_norm / Maximum()(Sqrt()(total), clip_norm)
    return tuple(part * scale for part in x)
