"""Which dtype travels as what when it is reduced; whatever only moves travels as bytes.

| dtype                  | sum, prod          | max, min                          |
|------------------------|--------------------|-----------------------------------|
| bool                   | uint8 or, uint8 and | uint8                            |
| int8-64, uint8-64      | itself             | itself                            |
| float16, bfloat16      | float32            | int16 in the order of the numbers |
| float32, float64       | itself             | integers of equal width, likewise |
| complex64, complex128  | itself             | refused: no order                 |

Reason of the last column: an MPI library compares floats with ``a > b``. For NaN and for zeros of both signs that
depends on the order of its operands. So ranks may end with different results. Integers have no such corner.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication.protocol import Reduction
from mpiparallel.dtype import is_narrow
from mpiparallel.errors import CommunicationError

UFUNCS: dict[Reduction, np.ufunc] = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}

_ITSELF = frozenset("bhilqBHILQfdFD")
_ORDERED_AS: dict[str, type[np.signedinteger[Any]]] = {"e": np.int16, "E": np.int16, "f": np.int32, "d": np.int64}
_BOOL_OPERATIONS: dict[Reduction, Reduction] = {"sum": "max", "max": "max", "min": "min", "prod": "min"}


class Wire(NamedTuple):
    """How one reduction travels: elements of ``dtype``, combined by ``operation``."""

    dtype: np.dtype[Any]
    operation: Reduction
    is_ordered: bool = False


def wire_of(dtype: np.dtype[Any], operation: Reduction) -> Wire:
    """Return how arrays of ``dtype`` are reduced.

    >>> wire_of(np.dtype(np.float16), "sum").dtype
    dtype('float32')
    >>> wire_of(np.dtype(bool), "sum").operation
    'max'
    """
    if operation not in UFUNCS:
        raise CommunicationError(f'reduction "{operation}" is not known; use one of {", ".join(UFUNCS)}')
    compares = operation in ("max", "min")
    if not dtype.isnative:
        raise CommunicationError(f"arrays of dtype {dtype.str} are not in native byte order; convert with .astype")
    if dtype.char == "?":
        return Wire(np.dtype(np.uint8), _BOOL_OPERATIONS[operation])
    if dtype.kind == "c" and compares:
        raise CommunicationError(f"{operation} of {dtype}: complex numbers have no order; reduce their parts")
    if compares and dtype.char in _ORDERED_AS:
        return Wire(np.dtype(_ORDERED_AS[dtype.char]), operation, is_ordered=True)
    if is_narrow(dtype):
        return Wire(np.dtype(np.float32), operation)
    if dtype.char in _ITSELF:
        return Wire(dtype, operation)
    raise CommunicationError(f"arrays of dtype {dtype} cannot be reduced; convert to bool, integers, float or complex")


def encode(view: NDArray[Any], wire: Wire) -> NDArray[Any]:
    """Return one-dimensional ``view`` in the wire dtype: the array itself or its bytes where they serve, or a copy."""
    if wire.is_ordered:
        return _ordered(view, wire)
    return view.view(wire.dtype) if view.itemsize == wire.dtype.itemsize else view.astype(wire.dtype)


def landing(view: NDArray[Any], wire: Wire) -> NDArray[Any]:
    """Return where a result of ``view.size`` elements can be received before ``decode`` puts it into ``view``."""
    return view.view(wire.dtype) if view.itemsize == wire.dtype.itemsize else np.empty(view.size, wire.dtype)


def decode(received: NDArray[Any], view: NDArray[Any], wire: Wire) -> None:
    """Put a result in the wire dtype into one-dimensional ``view``, in which it may already lie."""
    if wire.is_ordered:
        view.view(wire.dtype)[:] = _flip_negatives(received)
    elif view.itemsize != wire.dtype.itemsize:
        with np.errstate(over="ignore"):  # a sum above the largest float16 is inf, as for any other float
            view[:] = received
    elif not np.may_share_memory(received, view):
        view.view(wire.dtype)[:] = received


def _ordered(view: NDArray[Any], wire: Wire) -> NDArray[Any]:
    codes = _flip_negatives(view.view(wire.dtype))
    limits = np.iinfo(wire.dtype)
    # Both limits decode to a NaN, and lie beyond the infinities.
    codes[np.isnan(view)] = limits.max if wire.operation == "max" else limits.min
    return codes


def _flip_negatives(bits: NDArray[Any]) -> NDArray[Any]:
    """Map the bits of floats to integers of the same order; its own inverse."""
    limits = np.iinfo(bits.dtype)
    flipped: NDArray[Any] = bits ^ ((bits >> (limits.bits - 1)) & bits.dtype.type(limits.max))
    return flipped
