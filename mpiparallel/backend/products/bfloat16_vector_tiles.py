"""Vectors of bfloat16 numbers, their pairs and their sums, at addresses: what emits them for LLVM.

Needs numba: import this module from compiled loops only.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from mpiparallel.dataclass import dataclass

LINES = 16
"""Lines of a panel: the sums in one register."""

WORD, PAIR, INDEX = ir.IntType(16), ir.IntType(32), ir.IntType(64)
SUMS = ir.VectorType(ir.FloatType(), LINES)
WORDS = ir.VectorType(WORD, LINES)
PAIRS = ir.VectorType(PAIR, LINES)
ROW = ir.VectorType(WORD, 2 * LINES)


class BFloat16(ir.Type):  # type: ignore[misc, unused-ignore]
    """LLVM's bfloat, which llvmlite has no name for."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BFloat16)

    def __hash__(self) -> int:
        return hash(BFloat16)


FACTORS = ir.VectorType(BFloat16(), 2 * LINES)


def number(value: int) -> Any:
    """Return a constant of an address's size."""
    return ir.Constant(INDEX, value)


@dataclass(frozen=True)
class Emitter:
    """Emits what works on vectors at addresses."""

    builder: Any

    def after(self, address: Any, count: int, size: Any) -> Any:
        """Return the address ``count`` times ``size`` bytes further."""
        return self.builder.add(address, self.builder.mul(size, number(count)))

    def lanes_below(self, count: Any, lanes: int) -> Any:
        """Return a mask of the first ``count`` lanes."""
        vector = ir.VectorType(INDEX, lanes)
        return self.builder.icmp_signed("<", ir.Constant(vector, list(range(lanes))), self.spread(count, lanes))

    def spread(self, value: Any, lanes: int) -> Any:
        """Return a vector of one number."""
        undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
        first = self.builder.insert_element(undefined, value, ir.Constant(PAIR, 0))
        return self.builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(PAIR, lanes), [0] * lanes))

    def load(self, kind: Any, address: Any, align: int) -> Any:
        value = self.builder.load(self.builder.inttoptr(address, kind.as_pointer()))
        value.align = align
        return value

    def store(self, value: Any, address: Any, align: int) -> None:
        self.builder.store(value, self.builder.inttoptr(address, value.type.as_pointer())).align = align

    def load_some(self, kind: Any, address: Any, mask: Any) -> Any:
        """Return a vector of 16-bit words, 0 where the mask is not; there nothing is read."""
        pointer = self.builder.inttoptr(address, kind.as_pointer())
        name = f"llvm.masked.load.v{kind.count}i16.p0"
        return self.call(name, kind, [pointer, ir.Constant(PAIR, 2), mask, ir.Constant(kind, None)])

    def store_some(self, value: Any, address: Any, mask: Any) -> None:
        element = "f32" if value.type == SUMS else "i16"
        pointer = self.builder.inttoptr(address, value.type.as_pointer())
        align = ir.Constant(PAIR, 4 if value.type == SUMS else 2)
        self.call(f"llvm.masked.store.v{LINES}{element}.p0", ir.VoidType(), [value, pointer, align, mask])

    def prefetch(self, address: Any, writes: bool, near: int = 3) -> None:
        """Have a line of memory brought to the caches, ``near`` 3 to the first, 2 to the second."""
        pointer = self.builder.inttoptr(address, ir.IntType(8).as_pointer())
        options = [ir.Constant(PAIR, one) for one in (int(writes), near, 1)]
        self.call("llvm.prefetch.p0", ir.VoidType(), [pointer, *options])

    def call(self, name: str, result: Any, arguments: list[Any]) -> Any:
        module = self.builder.module
        function = module.globals.get(name)
        if function is None:
            function = ir.Function(module, ir.FunctionType(result, [one.type for one in arguments]), name)
        return self.builder.call(function, arguments)

    def multiply_add(self, sums: Any, row: Any, column: Any) -> Any:
        return self.call("llvm.x86.avx512bf16.dpbf16ps.512", SUMS, [sums, row, column])

    def rounded(self, sums: Any) -> Any:
        """Return float32 as bfloat16, to the nearest, a tie to even; what is below its normal numbers becomes 0."""
        narrow = ir.VectorType(BFloat16(), LINES)
        return self.builder.bitcast(self.call("llvm.x86.avx512bf16.cvtneps2bf16.512", narrow, [sums]), WORDS)
