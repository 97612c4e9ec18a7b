"""MindSpore's door to tensors."""

from __future__ import annotations

from mpiparallel.ops.tensor_methods import Tensor as Tensor

__all__ = ["Tensor"]
