"""The most that ranks hold while tensors move in waves, counted by hand."""

from __future__ import annotations

from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.forecast.peak import bounded_peak
from mpiparallel.reshard.planning.layout_digest import LayoutPair

HALVES = Layout((6,), DeviceMatrix((2,)), ((0,),))
THIRDS = Layout((6,), DeviceMatrix((3,)), ((0,),))
PAIRS: dict[str, LayoutPair] = {"a": (HALVES, THIRDS), "b": (HALVES, THIRDS), "k": (THIRDS, THIRDS)}
SIZES = {"a": 8, "b": 8, "k": 1}


def test_a_peak_is_what_stays_and_one_wave_of_new_arrays() -> None:
    # k takes 2 bytes of each rank. a and b have 24, 24 and 0 before, and 16 each after.
    assert bounded_peak(PAIRS, SIZES).tolist() == [2 + 48 + 32, 2 + 48 + 32, 2 + 0 + 32]
    assert bounded_peak(PAIRS, SIZES, 31).tolist() == [2 + 48 + 16, 2 + 48 + 16, 2 + 16 + 16]
    assert bounded_peak(PAIRS, SIZES, 32).tolist() == [2 + 48 + 32, 2 + 48 + 32, 2 + 0 + 32]
    assert bounded_peak({}, {}).tolist() == []


def test_parts_that_stay_need_no_new_array() -> None:
    # Rank 0 keeps its third, the others swap theirs.
    swapped = Layout((6,), DeviceMatrix((3,), ranks=(0, 2, 1)), ((0,),))
    assert bounded_peak({"a": (THIRDS, swapped)}, {"a": 4}).tolist() == [8, 16, 16]


def test_waves_are_of_64_mebibytes_where_nothing_is_said() -> None:
    mebibytes = Layout((64 << 20,), DeviceMatrix((2,)), ((0,),))
    turned = mebibytes.on_ranks((1, 0))
    pairs = dict.fromkeys("abc", (mebibytes, turned))
    # Three tensors of 32 MiB a rank: two of them fit into a wave.
    assert bounded_peak(pairs, dict.fromkeys("abc", 1)).tolist() == [(96 + 64) << 20] * 2
