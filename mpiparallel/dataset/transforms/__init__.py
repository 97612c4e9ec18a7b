"""Operations for ``Dataset.map``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpiparallel.compatibility.absent_names import getattr_of
from mpiparallel.dataset.transforms.compose import Compose as Compose
from mpiparallel.dataset.transforms.type_cast import TypeCast as TypeCast

__all__ = ["Compose", "TypeCast"]

if not TYPE_CHECKING:
    __getattr__ = getattr_of(__name__, ("c_transforms",))
