"""One small state and its move from four ranks to three, in which every kind of traffic occurs."""

from __future__ import annotations

from typing import Any

from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.conformance.resharding.reshard_cases import Case, Tensor

RANKS = 4
SQUARE = DeviceMatrix((2, 2))
THREE = DeviceMatrix((3,), 1)


def state(ranks_per_host: int = RANKS, **options: Any) -> Case:
    """Return the move; rank 0 retires, and ``stays`` is on the same ranks before and after."""
    tensors = {
        "bias": Tensor("f4", Layout((37,), SQUARE, ((0,),), optimizer_axes=(1,)), _over((37,), ()), "C", 1),
        "matrix": Tensor("f8", Layout((60, 41), SQUARE, ((0,), (1,))), _over((60, 41), (0,)), "F", 2),
        "mask": Tensor("?", Layout((9, 5), SQUARE, ((), (1,))), _over((9, 5), (), (0,)), "strided", 3),
        "stays": Tensor("f2", _over((8, 3), (0,)), _over((8, 3), (0,)), "C", 4),
        "step": Tensor("i8", Layout((), SQUARE, ()), Layout((), THREE, ()), "C", 5),
    }
    return Case(tensors, ranks_per_host, options)


def _over(shape: tuple[int, ...], *cut: tuple[int, ...]) -> Layout:
    return Layout(shape, THREE, cut + ((),) * (len(shape) - len(cut)))
