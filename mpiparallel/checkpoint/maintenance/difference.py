"""What two states differ in, tensor by tensor, however each of them is cut."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpiparallel.checkpoint.files.meter import Meter, Progress
from mpiparallel.checkpoint.files.portions import PORTION_BYTES, portions
from mpiparallel.checkpoint.maintenance.named_state import NamedState, open_named
from mpiparallel.checkpoint.stored_state import StoredTensor
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.box import Box

Comparison = Literal["equal", "differs", "only in first", "only in second", "other shape", "unreadable"]

_BLOCK_FOR_EACH_CUT: Final = 2 << 20
_MOST_PORTION: Final = 64 << 20
_WORD: Final = 8


class ValueDifference(NamedTuple):
    """How the values of a tensor differ: ``differing`` of ``size`` elements, by ``largest`` at most.

    Elements of one dtype are equal when their bits are, so -0.0 differs from 0.0, by 0; those of two dtypes when their
    values are. ``largest`` is over values that are finite on both sides; ``not_finite`` counts all other values that
    differ. ``first`` is where the first one is.
    """

    size: int
    differing: int
    largest: float
    not_finite: int
    first: tuple[int, ...] | None


@dataclass(frozen=True)
class TensorDifference:
    """What a tensor is in two states, None where it is not in one; values are compared where the shapes are equal.

    ``problem`` says why an unreadable one is. With ``by_digest`` no value had to be read, for all digests are equal.
    """

    name: str
    verdict: Comparison
    first: StoredTensor | None
    second: StoredTensor | None
    values: ValueDifference | None = None
    problem: str = ""
    by_digest: bool = False

    @property
    def same_dtype(self) -> bool:
        """Whether it is of one dtype in both."""
        return self.first is not None and self.second is not None and self.first.dtype == self.second.dtype

    @property
    def same_layout(self) -> bool:
        """Whether it is on the same ranks, cut alike, in both."""
        if self.first is None or self.second is None:
            return False
        return self.first.layout.canonical == self.second.layout.canonical


def diff(first: str | Path, second: str | Path, progress: Progress | None = None) -> list[TensorDifference]:
    """Return how two states, checkpoints or files of arrays, differ: an entry for each tensor, by name.

    Neither is ever in memory as a whole. Slices that are cut alike and have equal digests in both manifests are not
    read. Raises ``CheckpointError`` for what cannot be found; a tensor that cannot be read has a verdict of its own.
    """
    with open_named(first) as one, open_named(second) as other:
        return list(differences(one, other, progress))


def differences(first: NamedState, second: NamedState, progress: Progress | None = None) -> Iterator[TensorDifference]:
    """Yield how each tensor of two open states differs."""
    one, other = first.state.tensors, second.state.tensors
    comparable = [name for name in one if name in other and _shape(one[name]) == _shape(other[name])]
    meter = Meter(sum(_nbytes(one[name]) for name in comparable), progress)
    for name in sorted({*one, *other}):
        before, after = one.get(name), other.get(name)
        if before is None or after is None:
            yield TensorDifference(name, "only in second" if before is None else "only in first", before, after)
        elif _shape(before) != _shape(after):
            yield TensorDifference(name, "other shape", before, after)
        else:
            yield _compared(name, first, second, meter)


def _compared(name: str, first: NamedState, second: NamedState, meter: Meter) -> TensorDifference:
    before, after = first.state.tensors[name], second.state.tensors[name]
    values = _Comparison(before.layout.global_shape)
    by_digest = True
    try:
        for box in _unlike(name, first, second, meter):
            by_digest = False
            values.add(box, first.state.read_box(name, box), second.state.read_box(name, box))
            meter.add(box.size * before.dtype.itemsize)
    except CheckpointError as error:
        return TensorDifference(name, "unreadable", before, after, problem=str(error))
    found = values.result()
    equal = not found.differing and before.dtype == after.dtype
    return TensorDifference(name, "equal" if equal else "differs", before, after, found, by_digest=by_digest)


def _shape(tensor: StoredTensor) -> tuple[int, ...]:
    return tensor.layout.global_shape


def _nbytes(tensor: StoredTensor) -> int:
    return prod(tensor.layout.global_shape) * tensor.dtype.itemsize


def _unlike(name: str, first: NamedState, second: NamedState, meter: Meter) -> Iterator[Box]:
    """Yield the boxes of a tensor whose values have to be compared: all, or those whose digests are not equal."""
    one, other = first.state.tensors[name], second.state.tensors[name]
    itemsize, shape = one.dtype.itemsize, one.layout.global_shape
    if one != other:
        # A row may be in as many files as the inner dims are cut into, and of each at least a block is read.
        cuts = max((parts for tensor in (one, other) for parts in tensor.layout.cuts[1:]), default=1)
        most = min(_MOST_PORTION, max(PORTION_BYTES, cuts * _BLOCK_FOR_EACH_CUT))
        yield from portions(Box.whole(shape), itemsize, most)
        return
    for parts in product(*map(range, one.layout.cuts)):
        box = one.layout.box_of_parts(parts)
        digest = first.digest(name, parts)
        if digest is not None and digest == second.digest(name, parts):
            meter.add(box.size * itemsize)
        else:
            yield from portions(box, itemsize)


class _Comparison:
    """Differences that are added up box by box."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._size = Box.whole(shape).size
        self._differing = self._not_finite = 0
        self._largest = 0.0
        self._first: tuple[int, ...] | None = None

    def add(self, box: Box, one: NDArray[Any], other: NDArray[Any]) -> None:
        """Count what differs in a box."""
        unlike = _unlike_elements(one, other)
        count = int(np.count_nonzero(unlike))
        if not count:
            return
        place = np.unravel_index(int(np.argmax(unlike)), box.shape)
        where = tuple(start + int(offset) for start, offset in zip(box.start, place, strict=True))
        # Boxes do not come in the order of the elements.
        self._first = where if self._first is None else min(self._first, where)
        self._differing += count
        one, other = one[unlike], other[unlike]
        finite = np.isfinite(one) & np.isfinite(other)
        self._not_finite += count - int(np.count_nonzero(finite))
        self._largest = max(self._largest, _largest(one[finite], other[finite]))

    def result(self) -> ValueDifference:
        """Return what was counted."""
        return ValueDifference(self._size, self._differing, self._largest, self._not_finite, self._first)


def _unlike_elements(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    if one.dtype == other.dtype:
        pairs = [_bits(array) for array in (one, other)]
        unlike: NDArray[np.bool_] = (
            (pairs[0] != pairs[1]).any(-1) if one.dtype.itemsize > _WORD else pairs[0] != pairs[1]
        )
        return unlike.reshape(one.shape)
    both_nan = (one != one) & (other != other)
    return np.asarray((one != other) & ~both_nan)


def _bits(array: NDArray[Any]) -> NDArray[Any]:
    """Return the bits of each element as an integer, or as a row of them."""
    width = min(array.dtype.itemsize, _WORD)
    row = np.ascontiguousarray(array).reshape(-1).view(f"u{width}")
    return row.reshape(array.size, -1) if array.dtype.itemsize > _WORD else row


def _largest(one: NDArray[Any], other: NDArray[Any]) -> float:
    if not one.size:
        return 0.0
    # Differences of integers of 64 bits do not fit in a double.
    wide = np.complex128 if "c" in (one.dtype.kind, other.dtype.kind) else np.longdouble
    with np.errstate(over="ignore"):
        return float(np.abs(one.astype(wide) - other.astype(wide)).max())
