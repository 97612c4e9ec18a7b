"""Small blocks of vectors in a processor's registers, for compiled loops: products, gathering, transposition.

A loop in Python cannot say that a block of a product is to stay in registers; these parts, written for LLVM, do. Needs
numba: import this module from compiled loops only.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from mpiparallel.dataclass import dataclass

SIZE = types.intp
_INDEX = ir.IntType(32)


@dataclass(frozen=True)
class TileShape:
    """How many rows of how many numbers a tile has, and how many numbers are in a vector; two vectors are a row."""

    rows: int
    lanes: int

    @property
    def columns(self) -> int:
        """Numbers in a row."""
        return 2 * self.lanes

    @classmethod
    def on(cls, features: dict[str, bool], itemsize: int) -> TileShape:
        """Return the shape for a processor with these features: all sums of a tile must have a register.

        >>> TileShape.on({"avx512f": True}, 4), TileShape.on({"avx2": True}, 4)
        (TileShape(rows=8, lanes=16), TileShape(rows=4, lanes=8))
        """
        if features.get("avx512f"):
            return cls(8, 64 // itemsize)
        if features.get("avx2"):
            return cls(4, 32 // itemsize)
        return cls(8 if features.get("neon") else 4, 16 // itemsize)

    @classmethod
    def here(cls, itemsize: int) -> TileShape:
        """Return the shape for this processor."""
        return cls.on(dict(binding.get_host_cpu_features()), itemsize)


@intrinsic
def tile_rows(typing, array):
    """Return the number of rows of a tile of numbers as in an array; a constant."""
    return SIZE(array), lambda *_: ir.Constant(ir.IntType(64), TileShape.here(array.dtype.bitwidth // 8).rows)


@intrinsic
def vector_lanes(typing, array):
    """Return how many numbers as in an array are in a vector; a constant."""
    return SIZE(array), lambda *_: ir.Constant(ir.IntType(64), TileShape.here(array.dtype.bitwidth // 8).lanes)


@intrinsic
def product(typing, depth, a, at, step, rows, b, bt, c, ct, pitch, more):
    """Set a tile of c, or with ``more`` add to it: the product of ``depth`` columns of a and rows of b.

    Row r of a starts at ``at + r * step``, row r of c at ``ct + r * pitch``. The rows of b follow each other. Of a
    there are ``rows`` rows, at most those of a tile. What c gets beyond them means nothing.
    """
    return types.void(SIZE, a, SIZE, SIZE, SIZE, b, SIZE, c, SIZE, SIZE, types.boolean), _product


@intrinsic
def gather(typing, target, start, source, begin, offsets, first, run):
    """Copy a vector's numbers: ``run`` from ``begin + offsets[first]``, then from ``begin + offsets[first + run]`` ...

    ``run`` is a power of two, at most the numbers of a vector.
    """
    return types.void(target, SIZE, source, SIZE, offsets, SIZE, SIZE), _gather


@intrinsic
def transpose_square(typing, target, start, pitch, source, begin, offsets, first):
    """Transpose a square of vectors.

    Row r of the source starts at ``begin + offsets[first + r]``; its numbers become column r of the target, whose rows
    are ``pitch`` apart from ``start``.
    """
    return types.void(target, SIZE, SIZE, source, SIZE, offsets, SIZE), _transpose


@dataclass(frozen=True)
class _Emitter:
    """Emits what works on vectors of the numbers in one array."""

    builder: Any
    bits: int

    @cached_property
    def shape(self) -> TileShape:
        return TileShape.here(self.bits // 8)

    def vector(self, lanes: int) -> Any:
        # Numbers of 16 bits are only moved.
        return ir.VectorType({16: ir.IntType(16), 32: ir.FloatType(), 64: ir.DoubleType()}[self.bits], lanes)

    @property
    def whole(self) -> Any:
        return self.vector(self.shape.lanes)

    def load(self, pointer: Any, lanes: int) -> Any:
        value = self.builder.load(self.builder.bitcast(pointer, self.vector(lanes).as_pointer()))
        value.align = self.bits // 8
        return value

    def store(self, value: Any, pointer: Any) -> None:
        stored = self.builder.store(value, self.builder.bitcast(pointer, value.type.as_pointer()))
        stored.align = self.bits // 8

    def row(self, start: Any, index: Any) -> list[Any]:
        """Return the addresses of the vectors of the row that starts at an index."""
        first = self.builder.gep(start, [index])
        return [self.builder.gep(first, [_number(index, part * self.shape.lanes)]) for part in (0, 1)]

    def least(self, x: Any, y: Any) -> Any:
        return self.builder.select(self.builder.icmp_signed("<", x, y), x, y)

    def spread(self, number: Any) -> Any:
        """Return a vector of one number."""
        undefined = ir.Constant(self.whole, ir.Undefined)
        first = self.builder.insert_element(undefined, number, ir.Constant(_INDEX, 0))
        return self.builder.shuffle_vector(first, undefined, lane_mask([0] * self.shape.lanes))

    def multiply_add(self, x: Any, y: Any, z: Any) -> Any:
        kind = ir.FunctionType(self.whole, [self.whole] * 3)
        function = cgutils.get_or_insert_function(
            self.builder.module, kind, f"llvm.fma.v{self.shape.lanes}f{self.bits}"
        )
        return self.builder.call(function, [x, y, z])

    def accumulate(self, depth: Any, lines: list[Any], b: Any) -> list[list[Any]]:
        """Emit the loop over the depth of a product; return the sums that it leaves in registers."""
        builder = self.builder
        entry, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
        builder.branch(loop)
        builder.position_at_end(loop)
        index = builder.phi(depth.type)
        index.add_incoming(_number(depth, 0), entry)
        sums = [[builder.phi(self.whole) for _ in (0, 1)] for _ in lines]
        pointers = self.row(b, builder.mul(index, _number(depth, self.shape.columns)))
        vectors = [self.load(pointer, self.shape.lanes) for pointer in pointers]
        totals = []
        for line, row in zip(lines, sums, strict=True):
            factor = self.spread(builder.load(builder.gep(line, [index])))
            totals.append([self.multiply_add(factor, *pair) for pair in zip(vectors, row, strict=True)])
        following = builder.add(index, _number(depth, 1))
        index.add_incoming(following, loop)
        for row, new in zip(sums, totals, strict=True):
            for total, value in zip(row, new, strict=True):
                total.add_incoming(ir.Constant(self.whole, None), entry)
                total.add_incoming(value, loop)
        builder.cbranch(builder.icmp_signed("<", following, depth), loop, after)
        builder.position_at_end(after)
        return totals


def _product(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    depth, _, at, step, rows, _, bt, _, ct, pitch, more = arguments
    emit = _Emitter(builder, signature.args[1].dtype.bitwidth)
    a, b, c = (_address(context, builder, signature, arguments, place) for place in (1, 5, 7))
    a, b, c = builder.gep(a, [at]), builder.gep(b, [bt]), builder.gep(c, [ct])
    places = [_number(rows, row) for row in range(emit.shape.rows)]
    last = builder.sub(rows, _number(rows, 1))
    lines = [builder.gep(a, [builder.mul(emit.least(place, last), step)]) for place in places]
    totals = emit.accumulate(depth, lines, b)
    with builder.if_else(more) as (then, otherwise):
        for branch, adds in ((then, True), (otherwise, False)):
            with branch:
                for place, row in zip(places, totals, strict=True):
                    for total, pointer in zip(row, emit.row(c, builder.mul(place, pitch)), strict=True):
                        value = builder.fadd(emit.load(pointer, emit.shape.lanes), total) if adds else total
                        emit.store(value, pointer)
    return context.get_dummy_value()


def _gather(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    _, start, _, begin, _, first, run = arguments
    emit = _Emitter(builder, signature.args[0].dtype.bitwidth)
    target, source, offsets = (_address(context, builder, signature, arguments, place) for place in (0, 2, 4))
    target, source, offsets = builder.gep(target, [start]), builder.gep(source, [begin]), builder.gep(offsets, [first])
    after = builder.append_basic_block()
    chosen = builder.switch(run, after)
    for power in range(emit.shape.lanes.bit_length()):
        block = builder.append_basic_block()
        chosen.add_case(_number(run, 1 << power), block)
        with builder.goto_block(block):
            for part in range(0, emit.shape.lanes, 1 << power):
                offset = builder.load(builder.gep(offsets, [_number(run, part)]))
                value = emit.load(builder.gep(source, [offset]), 1 << power)
                emit.store(value, builder.gep(target, [_number(run, part)]))
            builder.branch(after)
    builder.position_at_end(after)
    return context.get_dummy_value()


def _transpose(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    _, start, pitch, _, begin, _, first = arguments
    emit = _Emitter(builder, signature.args[0].dtype.bitwidth)
    target, source, offsets = (_address(context, builder, signature, arguments, place) for place in (0, 3, 5))
    target, source, offsets = builder.gep(target, [start]), builder.gep(source, [begin]), builder.gep(offsets, [first])
    places = [_number(start, row) for row in range(emit.shape.lanes)]
    begins = [builder.load(builder.gep(offsets, [place])) for place in places]
    rows = [emit.load(builder.gep(source, [one]), emit.shape.lanes) for one in begins]
    for place, row in zip(places, transposed(builder, rows), strict=True):
        emit.store(row, builder.gep(target, [builder.mul(place, pitch)]))
    return context.get_dummy_value()


def transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Emit the transpose of a square of vectors: squares of 1, 2, 4 ... numbers beside the diagonal change places."""
    lanes, step = len(rows), 1
    while step < lanes:
        upper = [lane + lanes - step if lane & step else lane for lane in range(lanes)]
        lower = [lane + lanes if lane & step else lane + step for lane in range(lanes)]
        mixed = list(rows)
        for row in (row for row in range(lanes) if not row & step):
            for place, mask in ((row, upper), (row + step, lower)):
                mixed[place] = builder.shuffle_vector(rows[row], rows[row + step], lane_mask(mask))
        rows, step = mixed, 2 * step
    return rows


def lane_mask(lanes: list[int]) -> Any:
    """Return which lanes of two vectors a shuffle takes."""
    return ir.Constant(ir.VectorType(_INDEX, len(lanes)), lanes)


def _number(like: Any, value: int) -> Any:
    return ir.Constant(like.type, value)


def _address(context: Any, builder: Any, signature: Any, arguments: Any, place: int) -> Any:
    """Return the address of the array that is the argument at ``place``."""
    return make_array(signature.args[place])(context, builder, arguments[place]).data
