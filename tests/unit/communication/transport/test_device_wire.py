"""As what elements travel between devices, and that they come back as what they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.communication.transport.device_wire import DeviceWire
from mpiparallel.communication.transport.lengths import spans
from mpiparallel.communication.transport.travelling import Travelling
from mpiparallel.dtype import bfloat16
from mpiparallel.errors import CommunicationError

F2, BF16, C8 = np.float16, bfloat16, np.complex64

WIRES: list[tuple[Any, Any, str, str, bool, bool, int]] = [
    # Dtype and operation, as MPI has it, as a device has it, whether as they are, whether in order, elements of three.
    (np.float32, "sum", "f4", "f4", True, False, 3),
    (np.float64, "prod", "f8", "f8", True, False, 3),
    (np.int32, "max", "i4", "i4", True, False, 3),
    (np.uint8, "min", "u1", "u1", True, False, 3),
    (bool, "sum", "u1", "u1", True, False, 3),
    (np.int16, "sum", "i2", "i4", False, False, 3),
    (np.uint16, "max", "u2", "u4", False, False, 3),
    (F2, "sum", "f4", "f4", False, False, 3),
    (BF16, "prod", "f4", "f4", False, False, 3),
    (F2, "max", "i2", "i4", False, True, 3),
    (BF16, "min", "i2", "i4", False, True, 3),
    (np.float32, "max", "i4", "i4", False, True, 3),
    (np.float64, "min", "i8", "i8", False, True, 3),
    (C8, "sum", "c8", "f4", True, False, 6),
    (np.complex128, "sum", "c16", "f8", True, False, 6),
]


@pytest.mark.parametrize(("dtype", "operation", "narrow", "wide", "plain", "ordered", "elements"), WIRES)
def test_elements_travel_as_what_a_devices_library_takes(
    dtype: Any, operation: Any, narrow: str, wide: str, plain: bool, ordered: bool, elements: int
) -> None:
    wire = DeviceWire(np.dtype(dtype), operation)
    assert (wire.narrow.str[1:], wire.dtype.str[1:]) == (narrow, wide)
    assert (wire.is_plain, wire.is_ordered, wire.elements(3)) == (plain, ordered, elements)
    if ordered:
        limits = np.iinfo(narrow)
        assert wire.nan_code == (limits.max if operation == "max" else limits.min)


@pytest.mark.parametrize("held", [False, True], ids=["made each time", "in memory that is held"])
@pytest.mark.parametrize(("dtype", "operation", "narrow", "wide", "plain", "ordered", "elements"), WIRES)
def test_what_has_travelled_is_what_was_sent(
    dtype: Any, operation: Any, narrow: str, wide: str, plain: bool, ordered: bool, elements: int, held: bool
) -> None:
    wire, view = DeviceWire(np.dtype(dtype), operation), np.array([1, 0, 5]).astype(dtype)
    found = np.zeros_like(view)
    if held:
        travelling = Travelling(wire, NumpyBackend(), 3)
        travelling.pack(view)
        sent = travelling.array
        travelling.unpack(found)
    else:
        sent = wire.pack(view)
        wire.unpack(sent, found)
    assert (sent.dtype.str[1:], sent.size) == (wide, elements)
    # What travels as it is lies in the array itself already, and is put nowhere.
    assert np.shares_memory(sent, view) is plain
    assert found.tolist() == (np.zeros_like(view) if plain else view).tolist()
    if plain:
        assert np.shares_memory(wire.seen(view), view)


@pytest.mark.parametrize("dtype", [F2, BF16, np.float32, np.float64])
@pytest.mark.parametrize(("operation", "winner"), [("max", 1), ("min", -1)])
def test_floats_travel_as_integers_of_their_order_where_nan_wins(dtype: Any, operation: Any, winner: int) -> None:
    numbers = np.array([-np.inf, -2, -0.0, 0.0, 1, np.inf]).astype(dtype)
    wire = DeviceWire(np.dtype(dtype), operation)
    travelling = Travelling(wire, NumpyBackend(), 6)
    travelling.pack(numbers)
    for codes in (wire.pack(numbers), travelling.array):
        assert (np.diff(codes.astype(object)) > 0).all()
    nans = np.full(6, -np.nan).astype(dtype)
    travelling.pack(nans)
    assert set(travelling.array.tolist()) == {wire.nan_code}
    assert wire.nan_code * winner > int(wire.pack(numbers)[5 if winner > 0 else 0]) * winner
    back = np.zeros_like(nans)
    travelling.unpack(back)
    assert np.isnan(back.astype(np.float32)).all()


def test_a_result_may_land_elsewhere_and_be_shorter() -> None:
    for dtype, operation in ((np.float32, "max"), (F2, "max"), (F2, "sum"), (np.int16, "sum")):
        wire: Any = DeviceWire(np.dtype(dtype), operation)  # type: ignore[arg-type]
        landing = np.zeros(2, wire.dtype)
        travelling = Travelling(wire, NumpyBackend(), 4, landing)
        travelling.pack(np.array([1, 2, 3, 4], dtype))
        assert travelling.landing is landing
        landing[:] = travelling.array[2:]
        block = np.zeros(2, dtype)
        travelling.unpack(block)
        assert block.tolist() == [3, 4]
    plain = Travelling(DeviceWire(np.dtype(np.float32), "sum"), NumpyBackend(), 4)
    array = np.ones(4, np.float32)
    plain.pack(array)
    assert np.shares_memory(plain.array, array)
    assert plain.landing is plain.array


@pytest.mark.parametrize("dtype", [C8, np.complex128])
def test_devices_multiply_no_complex_numbers(dtype: Any) -> None:
    with pytest.raises(CommunicationError) as caught:
        DeviceWire(np.dtype(dtype), "prod")
    words = f"prod of {np.dtype(dtype)}: devices multiply no complex numbers; reduce on the CPU"
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("count", "most", "wanted"),
    [(4, 2, [(0, 2), (2, 4)]), (1, 5, [(0, 1)]), (0, 1, [(0, 0)]), (3, 3, [(0, 3)]), (4, 3, [(0, 3), (3, 4)])],
)
def test_spans_cover_all_elements_and_are_one_at_least(count: int, most: int, wanted: list[tuple[int, int]]) -> None:
    assert spans(count, most) == wanted
