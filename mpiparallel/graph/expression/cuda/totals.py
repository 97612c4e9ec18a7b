"""The CUDA kernel that adds up the parts which teams of threads have left of a sum, in one order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.expression.cuda.kernel_text import KernelLaunch, KernelText
from mpiparallel.graph.expression.cuda.operand import CudaOperand
from mpiparallel.graph.expression.cuda.text import stored

_THREADS: Final = 256
_COLUMNS: Final = 32


def totals_launch(
    parts: Array, chunks: int, count: int, output: CudaOperand, kept: Sequence[int], index: str
) -> KernelLaunch:
    """Return what adds ``chunks`` rows of ``count`` numbers into ``output``, whose dims with elements are ``kept``."""
    columns = _COLUMNS if count >= _COLUMNS else 1
    text = KernelText(index, _THREADS)
    text.add_array("parts", "double", parts, is_output=False)
    text.add_array("a", output.type, output.array, is_output=True)
    text.add_number("chunks", chunks)
    text.add_number("count", count)
    for dim in kept:
        text.add_number(f"n{dim}", output.shape[dim])
        text.add_number(f"s{dim}", output.steps[dim])
    turns = _THREADS // columns
    text.line(
        0,
        f"__shared__ double cells[{_THREADS}];",
        f"const int column = threadIdx.x % {columns}, first = threadIdx.x / {columns};",
        f"const {index} own = ({index})blockIdx.x * {columns} + column;",
        "double sum = 0;",
        f"if (own < count) for ({index} at = first; at < chunks; at += {turns}) sum += parts[at * count + own];",
        "cells[threadIdx.x] = sum;",
        "__syncthreads();",
        f"for (int half = {turns // 2}; half; half /= 2) {{",
    )
    text.line(1, f"if (first < half) cells[threadIdx.x] += cells[threadIdx.x + half * {columns}];", "__syncthreads();")
    text.line(0, "}", "if (first || own >= count) return;", f"{index} rest = own;")
    text.unravel(0, "rest", kept)
    place = " + ".join(f"i{dim} * s{dim}" for dim in kept) or "0"
    text.line(0, f"a[{place}] = {stored(output.dtype, 'cells[column]')};")
    return text.launch(-(-count // columns))
