"""One launch that computes the same terms of each element of many arrays: the updates of an optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np

from mpiparallel.backend.protocol import AddressTable, Array
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.expression.cuda.body import CudaBody
from mpiparallel.graph.expression.cuda.elements import write_uniform, write_way_out
from mpiparallel.graph.expression.cuda.kernel_text import KernelLaunch, KernelText
from mpiparallel.graph.expression.cuda.operand import CudaOperand
from mpiparallel.graph.expression.cuda.text import is_written
from mpiparallel.graph.expression.term import Term, walk

_THREADS: Final = 256
_SHARE: Final = 4096
"""Elements of one array that a block takes."""

_WIDEST: Final = 16


@dataclass(frozen=True)
class _ArrayKind:
    """What a text has to know of an array: its type, and whether it has more than one element."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]


Column = Sequence[Array]
"""The arrays of one operand; one array without dims for all."""


def many_arrays_kernel(
    runtime: Runtime, roots: Sequence[Term], columns: Sequence[Column], outputs: Sequence[int]
) -> Kernel | None:
    """Return a launch that computes the roots of each row of ``columns`` into those that ``outputs`` are the places of.

    Terms take each array as if it had one dim. None where the device compiles no texts, terms are not written in them,
    or an array is not in C order.
    """
    arrays = [array for column in columns for array in column]
    kernels = runtime.backend.kernels
    if kernels is None or not all(map(is_written, walk(roots))):
        return None
    if not all(array.flags.c_contiguous for array in arrays):
        return None
    launch = _launch(runtime, roots, columns, outputs)
    return kernels.bind(launch.name, launch.text, launch.blocks, launch.threads, launch.arguments)


def _launch(runtime: Runtime, roots: Sequence[Term], columns: Sequence[Column], outputs: Sequence[int]) -> KernelLaunch:
    operands = [_operand(place, column[0], place in outputs) for place, column in enumerate(columns)]
    leaves = {term: term.number for term in walk(roots) if term.function == "input"}
    width = _width(runtime, columns)
    text = KernelText("long long", _THREADS)
    sizes = [array.size for array in next(column for column in columns if column[0].ndim)]
    blocks = _add_shares(runtime, text, sizes)
    for operand, column in zip(operands, columns, strict=True):
        if column[0].ndim:
            table = AddressTable(tuple(column))
            text.add_table(f"t{operand.index}", operand.type, table, is_output=operand.is_output)
        else:
            text.add_array(f"a{operand.index}", operand.type, column[0], is_output=False)
    uniform = write_uniform(text, roots, operands, leaves)
    write_way_out(text, roots, outputs, leaves, uniform)
    text.line(
        0,
        "const int own = owners[blockIdx.x];",
        "const long long begin = starts[blockIdx.x];",
        f"const long long end = begin + {_SHARE} < sizes[own] ? begin + {_SHARE} : sizes[own];",
    )
    for operand, column in zip(operands, columns, strict=True):
        if column[0].ndim:
            constant = "" if operand.is_output else "const "
            text.line(0, f"{constant}{operand.type}* r{operand.index} = t{operand.index}[own];")
    vectors = f"begin + (end - begin) / {width} * {width}"
    for wide, first, last in ((width, "begin", vectors), (1, vectors, "end")):
        if wide == 1 and width > 1 and all(size % width == 0 for size in sizes):
            continue
        body = CudaBody(operands, leaves, uniform, {0: "k"}, wide)
        for root, place in zip(roots, outputs, strict=True):
            body.write(place, body.value(root))
        text.line(0, f"for (long long k = {first} + threadIdx.x * {wide}; k < {last}; k += {_THREADS * wide}) {{")
        text.line(1, *body.lines())
        text.line(0, "}")
        if width == 1:
            break
    return text.launch(blocks)


def _operand(place: int, array: Array, is_output: bool) -> CudaOperand:
    many = array.ndim > 0
    kind = _ArrayKind(array.dtype, (2 if many else 1,), (array.dtype.itemsize if many else 0,))
    return CudaOperand(place, kind, 0, (2,), is_output)


def _width(runtime: Runtime, columns: Sequence[Column]) -> int:
    """Return how many neighbours a thread takes at once."""
    arrays = [array for column in columns for array in column if array.ndim]
    width: int = _WIDEST // max(array.dtype.itemsize for array in arrays)
    while width > 1 and any(runtime.backend.address(one) % (width * one.dtype.itemsize) for one in arrays):
        width //= 2
    return max(width, 1)


def _add_shares(runtime: Runtime, text: KernelText, sizes: Sequence[int]) -> int:
    """Add which array each block works at, and from where; return how many blocks there are."""
    counts = [-(-size // _SHARE) for size in sizes]
    owners = np.repeat(np.arange(len(sizes), dtype=np.int32), counts)
    ends = np.repeat([0, *accumulate(counts)][:-1], counts)
    starts = (np.arange(len(owners), dtype=np.int64) - ends) * _SHARE
    device = runtime.backend.from_host
    text.add_array("owners", "int", device(owners), is_output=False)
    text.add_array("starts", "long long", device(starts.astype(np.int64)), is_output=False)
    text.add_array("sizes", "long long", device(np.array(sizes, np.int64)), is_output=False)
    return len(owners)
