"""Terms computed by one compiled loop."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from mpiparallel.backend import jit
from mpiparallel.dtype import is_narrow
from mpiparallel.graph.execution.runtime import Kernel, Runtime, do_nothing
from mpiparallel.graph.expression.loop_source import LoopSource, Operand
from mpiparallel.graph.expression.loop_text import text_of
from mpiparallel.graph.expression.term import REDUCTIONS, Term, walk
from mpiparallel.graph.expression.term_arrays import TermArrays

_SMALLEST = 1 << 12
"""Elements below which the array library's calls cost less than a loop's compilation is worth."""

_DTYPES = frozenset("?bhilBHILfd")


def is_worth_a_loop(elements: int) -> bool:
    """Return whether a loop over so many elements is worth its compilation."""
    return elements >= _SMALLEST


def loop_kernel(runtime: Runtime, bound: TermArrays) -> Kernel | None:
    """Return the compiled loop over the domain; None where there is no compiler, or nothing to be gained by it."""
    if runtime.backend.name != "cpu" or not is_worth_a_loop(prod(bound.shape)) or not _is_compilable(bound):
        return None
    if not jit.is_there():
        return None
    # Not loaded where nothing is going to run.
    compiler = jit.compiler() if runtime.rehearsed is None else None
    arrays = [*bound.leaves.values(), *bound.outputs]
    narrow = {term.dtype for term in walk(bound.roots, bound.leaves) if is_narrow(term.dtype)}
    if compiler is not None and not all(map(compiler.converts, narrow)):
        return None
    unique, positions = _unique(arrays)
    operands = [_operand(array) for array in unique]
    leaves = {term: position for term, position in zip(bound.leaves, positions, strict=False)}
    outputs = positions[len(bound.leaves) :]
    source = LoopSource(bound, operands, leaves, outputs)
    text = source.write()
    if runtime.rehearsed is not None:
        runtime.rehearsed.add(text)
        return do_nothing
    if compiler is None:
        return None
    scratch = [np.empty(bound.shape[-1], dtype) for dtype in source.scratch]
    arguments: list[Any] = list(bound.shape)
    for array, operand in zip(unique, operands, strict=True):
        arguments.append(_flat(array))
        arguments += [array.strides[dim] // array.itemsize for dim in operand.counted(len(bound.shape))]
    return compiler.bind(text, (*arguments, *scratch))


def _is_compilable(bound: TermArrays) -> bool:
    terms = walk(bound.roots, bound.leaves)
    arrays = [*bound.leaves.values(), *bound.outputs]
    inner = any(term.function in REDUCTIONS and term not in bound.totals for term in terms)
    return (
        all(_is_written(term) for term in terms if term not in bound.leaves)
        and all(_is_held(one.dtype) for one in (*bound.leaves, *arrays))
        and all(stride >= 0 and stride % array.itemsize == 0 for array in arrays for stride in array.strides)
        and bound.row_rank == int(inner)
    )


def _is_held(dtype: np.dtype[Any]) -> bool:
    """Return whether a loop can read and write a dtype; of floats of 16 bits it holds the bits."""
    return dtype.char in _DTYPES or is_narrow(dtype)


def _is_written(term: Term) -> bool:
    """Return whether a loop can compute a term.

    It cannot the larger or smaller of two integers. Floats of 16 bits it casts, from what float32 holds, and no more.
    """
    if any(is_narrow(one.dtype) for one in (term, *term.operands)):
        return term.function == "cast" and (not is_narrow(term.dtype) or _fits_float32(term.operands[0].dtype))
    if term.dtype.char not in _DTYPES:
        return False
    if term.function in ("maximum", "minimum") and term.dtype.kind != "f":
        return False
    return term.function in ("cast", *REDUCTIONS) or term.is_leaf or bool(text_of(term.function))


def _fits_float32(dtype: np.dtype[Any]) -> bool:
    return dtype.char in "f?" or dtype.itemsize <= 2


def _unique(arrays: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """Return the arrays without those that show the same memory alike, and where each of the given ones is there."""
    found: dict[object, int] = {}
    unique: list[Any] = []
    positions: list[int] = []
    for array in arrays:
        key = (array.ctypes.data, array.shape, array.strides, array.dtype)
        if key not in found:
            found[key] = len(unique)
            unique.append(array)
        positions.append(found[key])
    return unique, positions


def _operand(array: Any) -> Operand:
    return Operand(tuple(min(stride // array.itemsize, 2) for stride in array.strides))


def _flat(array: Any) -> Any:
    """Return the memory of an array from its first to its last element, in one dim; floats of 16 bits as their bits."""
    reach = sum((extent - 1) * stride for extent, stride in zip(array.shape, array.strides, strict=True))
    extent = 1 + reach // array.itemsize
    flat = np.lib.stride_tricks.as_strided(array, (extent,), (array.itemsize,), writeable=True)
    return flat.view(np.uint16) if is_narrow(array.dtype) else flat
