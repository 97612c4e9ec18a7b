"""Tensors that move alike are counted together, and what is too much to count is refused."""

from __future__ import annotations

import pytest

from mpiparallel.errors import ReshardError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.forecast.reduced_layout_pair import check_sizes, gather_reduced_pairs, reduced_pair_of
from mpiparallel.reshard.planning.layout_digest import LayoutPair

HALVES = Layout((6,), DeviceMatrix((2,)), ((0,),))


def copies(extent: int, *ranks: int) -> Layout:
    return Layout((extent,), DeviceMatrix((len(ranks),), ranks=ranks), ((),))


def test_what_cannot_be_counted_in_64_bits_is_refused_and_what_can_is_not() -> None:
    vast = Layout((1 << 61,), DeviceMatrix((1,)), ((),))
    check_sizes({"v": (vast, vast)}, None)
    words = f"w: with its shape ({1 << 61},) the ranks would hold more than {1 << 62} bytes; check the shape"
    for layouts, sizes in (
        ({"v": (vast, vast), "w": (vast, vast)}, None),
        ({"w": (vast, copies(1 << 61, 0, 1))}, None),
        ({"w": (copies(1 << 61, 0, 1), vast)}, None),
        ({"w": (vast, vast)}, {"w": 2}),
    ):
        with pytest.raises(ReshardError) as caught:
            check_sizes(layouts, sizes)
        assert str(caught.value) == words
    with pytest.raises(ReshardError) as caught:
        check_sizes({"w": (vast, vast), "b": (vast, vast), "a": (vast, vast)}, {"w": 1})
    assert str(caught.value) == "a: itemsizes has no entry for it; give the bytes of an element of each tensor"


def test_tensors_that_move_alike_are_gathered_with_their_weights() -> None:
    def pair(extent: int) -> LayoutPair:
        source, target = (Layout((extent, 5), DeviceMatrix((2,)), cut) for cut in (((0,), ()), ((), ())))
        return source, target

    found = gather_reduced_pairs(
        {"a": pair(2), "b": pair(6), "c": pair(3), "e": pair(0)}, {"a": 1, "b": 4, "c": 2, "e": 1}
    )
    assert [*found.values()] == [{"a": 5, "b": 3 * 5 * 4}, {"c": 5 * 2}]
    assert [reduced.source.global_shape for reduced in found] == [(2, 1), (3, 1)]
    assert [*gather_reduced_pairs({"a": pair(2)}, None).values()] == [{"a": 5}]
    ranges = HALVES.with_bounds([((0, 2), (2, 6))])
    for one, other in ((HALVES, ranges), (ranges, HALVES)):
        assert reduced_pair_of(one, other)[1] == 1
        assert reduced_pair_of(one, other)[0].source is one
