"""The statements that compute terms of a few neighbouring elements, in CUDA C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mpiparallel.graph.expression.cuda.operand import CudaOperand
from mpiparallel.graph.expression.cuda.text import computed_type, cuda_constant, cuda_formula, loaded, stored
from mpiparallel.graph.expression.term import Term


class CudaBody:
    """What one thread does with ``width`` neighbours: loads, then a loop over them, then stores.

    ``leaves`` say which operand holds a term, ``known`` are names of what was computed before. ``rows`` are the names
    of the indices in the dims of a row; ``r0`` is where the row of operand 0 starts.
    """

    def __init__(
        self,
        operands: Sequence[CudaOperand],
        leaves: Mapping[Term, int],
        known: Mapping[Term, str],
        rows: dict[int, str],
        width: int,
        prefix: str = "v",
    ) -> None:
        self._operands = operands
        self._leaves = leaves
        self._known = known
        self._rows = rows
        self._width = width
        self._prefix = prefix
        self._names: dict[Term, str] = {}
        self._vectors: set[int] = set()
        self.loads: list[str] = []
        self.steps: list[str] = []
        self.stores: list[str] = []

    def value(self, term: Term) -> str:
        """Return the name of a term's value, computed before it is used."""
        if term in self._known:
            return self._known[term]
        if term.function == "constant":
            return cuda_constant(term)
        if term not in self._names:
            text = self._read(term) if term in self._leaves else cuda_formula(term, self.value)
            name = f"{self._prefix}{len(self._names)}"
            self.steps.append(f"const {computed_type(term.dtype)} {name} = {text};")
            self._names[term] = name
        return self._names[term]

    def has(self, term: Term) -> bool:
        """Return whether a term was computed or read here."""
        return term in self._names

    def write(self, place: int, value: str) -> None:
        """Let a value go to an operand."""
        operand = self._operands[place]
        element = stored(operand.dtype, value)
        if self._is_vector(operand):
            self.loads.append(f"Vector<{operand.type}, {self._width}> o{place};")
            self.steps.append(f"o{place}.e[v] = {element};")
            self.stores.append(f"*({self._vector_of(operand)}*)({self._place(operand)}) = o{place};")
        else:
            self.steps.append(f"{self._element(operand)} = {element};")

    def lines(self) -> list[str]:
        """Return the statements."""
        if self._width == 1:
            return [*self.loads, *self.steps, *self.stores]
        loop = f"for (int v = 0; v < {self._width}; ++v) {{"
        return [*self.loads, "#pragma unroll", loop, *(f"    {one}" for one in self.steps), "}", *self.stores]

    def _is_vector(self, operand: CudaOperand) -> bool:
        return self._width > 1 and operand.is_dense

    def _vector_of(self, operand: CudaOperand) -> str:
        return f"Vector<{operand.type}, {self._width}>"

    def _place(self, operand: CudaOperand) -> str:
        offset = operand.offset(self._rows)
        return f"r{operand.index} + {offset}" if offset else f"r{operand.index}"

    def _element(self, operand: CudaOperand) -> str:
        names = dict(self._rows)
        last = len(operand.steps) - 1
        if self._width > 1 and last in names:
            names[last] = f"({names[last]} + v)"
        return f"r{operand.index}[{operand.offset(names) or '0'}]"

    def _read(self, term: Term) -> str:
        operand = self._operands[self._leaves[term]]
        if not self._is_vector(operand):
            return loaded(operand.dtype, self._element(operand))
        if operand.index not in self._vectors:
            self._vectors.add(operand.index)
            kind = self._vector_of(operand)
            self.loads.append(f"const {kind} l{operand.index} = *(const {kind}*)({self._place(operand)});")
        return loaded(operand.dtype, f"l{operand.index}.e[v]")
