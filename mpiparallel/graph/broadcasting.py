"""What operators with broadcasting share: shapes, labels, and gradients summed back."""

from __future__ import annotations

from mpiparallel.errors import ShapeError
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.tensor import Tensor


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that tensors of these shapes broadcast to.

    >>> broadcast_shape((4, 1), (3,))
    (4, 3)
    """
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    result = []
    for extents in zip(*padded, strict=True):
        wide = {extent for extent in extents if extent != 1}
        if len(wide) > 1:
            raise ShapeError(f"shapes {', '.join(map(str, shapes))} do not broadcast: each dim must be equal or 1")
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def broadcast_equation(*shapes: tuple[int, ...]) -> Equation:
    """Return the rule of an element-wise operator: equal dims are cut together, dims of one element never."""
    target = broadcast_shape(*shapes)
    names = [f"d{dim}" for dim in range(len(target))]

    def labels(shape: tuple[int, ...]) -> Labels:
        start = len(target) - len(shape)
        return tuple(names[start + dim] if extent == target[start + dim] else None for dim, extent in enumerate(shape))

    return Equation(tuple(map(labels, shapes)), (tuple(names),), batch=names[0] if names else None)


def sum_to(gradient: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return the gradient of a tensor of ``shape`` that was broadcast: its sum over the dims repeated."""
    from_left = gradient.ndim - len(shape)
    repeated = [dim for dim in range(from_left)]
    repeated += [
        from_left + dim for dim, extent in enumerate(shape) if extent == 1 and gradient.shape[from_left + dim] != 1
    ]
    if repeated:
        gradient = gradient.sum(tuple(repeated))
    return gradient if gradient.shape == shape else gradient.reshape(shape)
