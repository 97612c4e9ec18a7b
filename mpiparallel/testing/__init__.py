"""Checks for operators of your own: by central differences, and under every legal strategy."""

from typing import TYPE_CHECKING

from mpiparallel.compatibility.absent_names import getattr_of
from mpiparallel.testing.operator_checks import check_gradient as check_gradient
from mpiparallel.testing.operator_checks import check_strategies as check_strategies

__all__ = ["check_gradient", "check_strategies"]

if not TYPE_CHECKING:
    __getattr__ = getattr_of(__name__)
