"""What operators refuse: axes out of range, dtypes that they cannot compute with, shapes that do not fit."""

from __future__ import annotations

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.dtype import is_floating
from mpiparallel.errors import ShapeError


def normal_axis(axis: int, rank: int) -> int:
    """Return ``axis`` counted from the left; raise ShapeError where a tensor with ``rank`` dims has no such dim.

    >>> normal_axis(-1, 3)
    2
    """
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} is out of range for {rank} dims; use {-rank} to {rank - 1}")
    return axis % rank


def check_floating(**inputs: TensorSpec) -> None:
    """Raise ShapeError unless each input, given by its name, is of floating point."""
    for name, spec in inputs.items():
        if not is_floating(spec.dtype):
            raise ShapeError(f"{name} is of dtype {spec.dtype}; cast it to a floating-point dtype")


def check_integer(**inputs: TensorSpec) -> None:
    """Raise ShapeError unless each input, given by its name, is of integers."""
    for name, spec in inputs.items():
        if spec.dtype.kind not in "iu":
            raise ShapeError(f"{name} is of dtype {spec.dtype}; cast it to an integer dtype")


def check_bool(**inputs: TensorSpec) -> None:
    """Raise ShapeError unless each input, given by its name, is of booleans."""
    for name, spec in inputs.items():
        if spec.dtype.kind != "b":
            raise ShapeError(f"{name} is of dtype {spec.dtype}; compare it, or cast it to bool")


def check_shape(shape: tuple[int, ...], **inputs: TensorSpec) -> None:
    """Raise ShapeError unless each input, given by its name, is of ``shape``."""
    for name, spec in inputs.items():
        if spec.shape != shape:
            raise ShapeError(f"{name} has shape {spec.shape}; it must be {shape}")
