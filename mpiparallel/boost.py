"""The place where MindSpore's users import ``GradientAccumulation`` from."""

from mpiparallel.nn.wrap.gradient_accumulation import GradientAccumulation as GradientAccumulation

__all__ = ["GradientAccumulation"]
