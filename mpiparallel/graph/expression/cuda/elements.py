"""The CUDA kernel of terms without reductions: threads step over all elements, a few neighbours at a time."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from mpiparallel.graph.expression.cuda.body import CudaBody
from mpiparallel.graph.expression.cuda.kernel_text import KernelLaunch, KernelText
from mpiparallel.graph.expression.cuda.operand import CudaOperand, index_type, vector_width
from mpiparallel.graph.expression.term import Term, uncast, walk
from mpiparallel.graph.expression.term_arrays import TermArrays

_THREADS: Final = 256
_MOST_BLOCKS: Final = 1 << 14


def element_launch(
    bound: TermArrays, operands: Sequence[CudaOperand], leaves: dict[Term, int], outputs: Sequence[int]
) -> KernelLaunch:
    """Return what computes each root of each element; ``outputs`` say which operand a root goes to."""
    last = len(bound.shape) - 1
    count = prod(bound.shape)
    width = vector_width(operands, bound.shape[-1], 1)
    text = KernelText(index_type(operands, count), _THREADS)
    add_operands(text, bound.shape, operands)
    text.add_number("count", count // width)
    uniform = write_uniform(text, bound.roots, operands, leaves)
    write_way_out(text, bound.roots, outputs, leaves, uniform)
    text.line(0, f"{text.index} at = ({text.index})blockIdx.x * {_THREADS} + threadIdx.x;")
    text.line(0, f"for (; at < count; at += ({text.index})gridDim.x * {_THREADS}) {{")
    text.line(1, f"{text.index} rest = at;")
    inner = f"(n{last} / {width})" if width > 1 else f"n{last}"
    text.line(1, f"const {text.index} k = rest % {inner}{f' * {width}' if width > 1 else ''};")
    if last:
        text.line(1, f"rest /= {inner};")
    text.unravel(1, "rest", range(last))
    add_row_starts(text, 1, operands, dict.fromkeys(range(last)))
    body = CudaBody(operands, leaves, uniform, {last: "k"}, width)
    for root, place in zip(bound.roots, outputs, strict=True):
        body.write(place, body.value(root))
    text.line(1, *body.lines())
    text.line(0, "}")
    return text.launch(min(-(-count // width // _THREADS), _MOST_BLOCKS) or 1)


def add_operands(text: KernelText, shape: Sequence[int], operands: Sequence[CudaOperand]) -> None:
    """Add extents, arrays and strides to the parameters."""
    for dim, extent in enumerate(shape):
        text.add_number(f"n{dim}", extent)
    for one in operands:
        text.add_array(f"a{one.index}", one.type, one.array, is_output=one.is_output)
        for dim in one.counted():
            text.add_number(f"s{one.index}_{dim}", one.steps[dim])


def add_row_starts(text: KernelText, depth: int, operands: Sequence[CudaOperand], dims: dict[int, None]) -> None:
    """Write where each operand's row starts, given the indices of the dims before it."""
    for one in operands:
        offset = one.offset({dim: f"i{dim}" for dim in dims})
        constant = "" if one.is_output else "const "
        start = f"a{one.index} + {offset}" if offset else f"a{one.index}"
        text.line(depth, f"{constant}{one.type}* r{one.index} = {start};")


def write_uniform(
    text: KernelText, roots: Sequence[Term], operands: Sequence[CudaOperand], leaves: dict[Term, int]
) -> dict[Term, str]:
    """Write what is the same for all elements, once for each thread, and return its names."""
    alike: dict[Term, None] = {}
    for term in walk(roots, leaves):
        if term in leaves:
            one = not any(operands[leaves[term]].steps) and not operands[leaves[term]].is_output
        else:
            one = term.function == "constant" or (bool(term.operands) and all(each in alike for each in term.operands))
        if one:
            alike[term] = None
    body = CudaBody(operands, leaves, {}, {}, 1, "u")
    names = {term: body.value(term) for term in alike if term.function != "constant"}
    read = {leaves[term] for term in alike if term in leaves}
    text.line(0, *(f"const {operands[place].type}* r{place} = a{place};" for place in sorted(read)))
    text.line(0, *body.lines())
    return names


def write_way_out(
    text: KernelText, roots: Sequence[Term], outputs: Sequence[int], leaves: dict[Term, int], uniform: dict[Term, str]
) -> None:
    """Let threads end where one truth, the same for all elements, leaves every output as it is."""
    truths = set()
    for root, place in zip(roots, outputs, strict=True):
        choice = uncast(root)
        if choice.function != "where" or leaves.get(uncast(choice.operands[2])) != place:
            return
        truths.add(choice.operands[0])
    if len(truths) == 1 and truths <= uniform.keys():
        text.line(0, f"if (!{uniform[truths.pop()]}) return;")
