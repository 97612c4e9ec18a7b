"""The name under which MindSpore 1.x programs import the operations of :mod:`mpiparallel.dataset.transforms`."""

from mpiparallel.dataset.transforms.compose import Compose as Compose
from mpiparallel.dataset.transforms.type_cast import TypeCast as TypeCast

__all__ = ["Compose", "TypeCast"]
