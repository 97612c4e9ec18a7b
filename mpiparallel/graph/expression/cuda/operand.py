"""The arrays of a CUDA kernel: their arguments, and how the text reaches their elements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.expression.cuda.text import stored_type

_WIDEST = 16
"""Bytes that one access of a thread moves at most."""


@dataclass(frozen=True, eq=False)
class CudaOperand:
    """An array of the rank of the domain, with how many elements each dim steps: 0 where it has one element."""

    index: int
    array: Array
    address: int
    shape: tuple[int, ...]
    is_output: bool

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """Elements from one place of the domain to the next, by dim."""
        size = self.array.dtype.itemsize
        return tuple(
            0 if own == 1 or extent == 1 else stride // size
            for own, extent, stride in zip(self.array.shape, self.shape, self.array.strides, strict=True)
        )

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its elements."""
        dtype: np.dtype[Any] = self.array.dtype
        return dtype

    @property
    def type(self) -> str:
        """The type of its elements in memory."""
        return stored_type(self.dtype)

    @property
    def is_dense(self) -> bool:
        """Whether elements next to each other in the last dim are so in memory."""
        return self.steps[-1] == 1

    def counted(self) -> list[int]:
        """Return the dims whose stride is an argument: where there is one, and it need not be 1."""
        last = len(self.steps) - 1
        return [dim for dim, step in enumerate(self.steps) if step and (dim < last or step != 1)]

    def reach(self) -> int:
        """Return the elements from the first to the last."""
        return 1 + sum(abs(step) * (extent - 1) for step, extent in zip(self.steps, self.shape, strict=True))

    def widths(self) -> int:
        """Return how many neighbours one access may take, by address and strides; 0 says as many as there are."""
        if not self.is_dense:
            return 0
        size = self.dtype.itemsize
        for width in (16, 8, 4, 2):
            whole = all(step % width == 0 for step in self.steps[:-1])
            if width * size <= _WIDEST and whole and self.address % (width * size) == 0:
                return width
        return 1

    def offset(self, names: dict[int, str]) -> str:
        """Return the sum of steps in these dims, whose indices have names; nothing where it does not step there."""
        last = len(self.steps) - 1
        parts = [
            name if dim == last and self.is_dense else f"{name} * s{self.index}_{dim}"
            for dim, name in names.items()
            if self.steps[dim]
        ]
        return " + ".join(parts)


def vector_width(operands: Sequence[CudaOperand], extent: int, lanes: int) -> int:
    """Return how many neighbours of a row a thread takes at once; fewer where threads would be left without any."""
    widths = [one.widths() for one in operands if one.is_dense]
    width = min(widths, default=1)
    # The widest type says how many fill an access: more would need several for each array.
    while width > 1 and (extent % width or (extent // width < lanes and extent > width)):
        width //= 2
    return width


def index_type(operands: Sequence[CudaOperand], count: int) -> str:
    """Return the type of indices: 64 bits only where a place may lie beyond what 32 can count."""
    farthest = max([count, *(one.reach() for one in operands)])
    return "long long" if farthest >= 1 << 30 else "int"
