"""A CUDA kernel as text, with the arguments of one launch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from mpiparallel.backend.protocol import AddressTable, Array
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.expression.cuda.prelude import PRELUDE

_INTEGERS: Final = {"int": np.int32, "long long": np.int64}
_INDENT: Final = "    "


@dataclass(frozen=True)
class KernelLaunch:
    """A text with the function ``name``, and what it is called with: numbers, and arrays that give their addresses."""

    name: str
    text: str
    blocks: int
    threads: int
    arguments: tuple[Any, ...]


class KernelText:
    """The text of a kernel while it is written: its parameters with their arguments, and its statements.

    ``index`` is the type of indices.
    """

    def __init__(self, index: str, threads: int) -> None:
        self.index = index
        self._threads = threads
        self._parameters: list[str] = []
        self._arguments: list[Any] = []
        self._lines: list[str] = []

    def add_number(self, name: str, value: int) -> None:
        """Add an extent, a stride or a count."""
        self._parameters.append(f"{self.index} {name}")
        self._arguments.append(_INTEGERS[self.index](value))

    def add_array(self, name: str, kind: str, array: Array, *, is_output: bool) -> None:
        """Add an array; no two overlap."""
        self._parameters.append(f"{'' if is_output else 'const '}{kind}* __restrict__ {name}")
        self._arguments.append(array)

    def add_table(self, name: str, kind: str, table: AddressTable, *, is_output: bool) -> None:
        """Add the addresses of arrays; no two overlap."""
        self._parameters.append(f"{'' if is_output else 'const '}{kind}* const* __restrict__ {name}")
        self._arguments.append(table)

    def line(self, depth: int, *lines: str) -> None:
        """Write statements."""
        self._lines += [_INDENT * (depth + 1) + one for one in lines]

    def unravel(self, depth: int, rest: str, dims: Sequence[int]) -> None:
        """Write the indices of dims that a number counts through, the last the fastest; it is used up."""
        for dim in reversed(dims):
            self.line(depth, f"const {self.index} i{dim} = {rest} % n{dim};", f"{rest} /= n{dim};")

    def launch(self, blocks: int) -> KernelLaunch:
        """Return the whole text with its arguments; equal texts have equal names."""
        body = "\n".join([f"({', '.join(self._parameters)}) {{", *self._lines, "}"])
        name = f"kernel_{hashlib.blake2b(f'{self._threads}{body}'.encode(), digest_size=8).hexdigest()}"
        head = f'extern "C" __global__ void __launch_bounds__({self._threads}) {name}'
        return KernelLaunch(name, f"{PRELUDE}\n{head}{body}\n", blocks, self._threads, tuple(self._arguments))
