"""MindSpore's door to tensors."""

from __future__ import annotations

from mpiparallel.graph.tensor import Tensor as Tensor

__all__ = ["Tensor"]
