"""Operations for ``Dataset.map``."""

from mpiparallel.dataset.transforms.compose import Compose as Compose
from mpiparallel.dataset.transforms.type_cast import TypeCast as TypeCast

__all__ = ["Compose", "TypeCast"]
