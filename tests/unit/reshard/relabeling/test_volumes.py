"""Which ranks a few targets get, and how many bytes that keeps in place, counted by hand."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from mpiparallel.errors import ReshardError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.planning.layout_digest import LayoutPair
from mpiparallel.reshard.relabeling import assignment
from mpiparallel.reshard.relabeling.relabel import Relabeling, find_relabeling, relabel
from mpiparallel.reshard.relabeling.volumes import Volumes

pytest.importorskip("scipy.optimize")


def rows(extent: int, *ranks: int) -> Layout:
    return Layout((extent,), DeviceMatrix((len(ranks),), ranks=ranks), ((0,),))


def copies(extent: int, *ranks: int) -> Layout:
    return Layout((extent,), DeviceMatrix((len(ranks),), ranks=ranks), ((),))


SHIFTED: dict[str, LayoutPair] = {"w": (rows(8, 0, 1, 2, 3), rows(8, 1, 2, 3, 0))}
CASES: dict[str, tuple[dict[str, LayoutPair], list[int], list[list[int]]]] = {
    # Pairs, those that may be chosen, and the bytes that each place finds on each of them.
    "rows elsewhere": (SHIFTED, [0, 1, 2, 3], [[0, 0, 0, 2], [2, 0, 0, 0], [0, 2, 0, 0], [0, 0, 2, 0]]),
    "fewer and larger rows": ({"w": (rows(8, 0, 1, 2, 3), rows(8, 0, 1))}, [0, 1, 2, 3], [[2, 2, 0, 0], [0, 0, 2, 2]]),
    "copies": ({"w": (copies(4, 0, 2), rows(4, 0, 1))}, [0, 1, 2], [[2, 0, 2], [2, 0, 2]]),
    "a rank that holds nothing": ({"w": (rows(4, 0, 1), rows(4, 0, 1))}, [1, 5], [[0, 0], [2, 0]]),
    "parts that no candidate holds": ({"w": (rows(6, 0, 1, 2), rows(6, 0, 1, 2))}, [0, 1], [[2, 0], [0, 2], [0, 0]]),
    "a place that has none of a tensor": (
        {"v": (rows(4, 0, 1), copies(4, 0)), "w": (rows(4, 0, 1), rows(4, 1, 2))},
        [0, 1],
        [[2, 2], [2, 0], [0, 2]],
    ),
    "a part without elements": (
        {"w": (rows(2, 0, 1, 2), rows(2, 0, 1, 2))},
        [0, 1, 2],
        [[1, 0, 0], [0, 1, 0], [0, 0, 0]],
    ),
    "two tensors": (
        {"v": (rows(4, 0, 1), rows(4, 1, 0)), "w": (rows(8, 0, 1), copies(8, 0, 1))},
        [0, 1],
        [[2 * 0 + 4, 2 * 1 + 4], [2 * 1 + 4, 2 * 0 + 4]],
    ),
    "no elements": ({"w": (rows(0, 0, 1), rows(0, 1, 0))}, [0, 1], [[0, 0], [0, 0]]),
}


@pytest.mark.parametrize("case", CASES)
def test_places_find_the_bytes_that_their_parts_share_with_those_of_a_rank(case: str) -> None:
    pairs, candidates, wanted = CASES[case]
    places = np.array(sorted({rank for _, target in pairs.values() for rank in target.devices.members}))
    volumes = Volumes(pairs, None, places, np.array(candidates))
    assert volumes.dense().tolist() == wanted
    found = np.zeros_like(volumes.dense())
    for reduced in volumes.reduced_pairs:
        at, chosen, sizes = reduced.shared_pairs()
        assert reduced.pair_count() == at.size
        np.add.at(found, (at, chosen), sizes)
    assert found.tolist() == wanted
    held = [target.box(rank).size for _, target in pairs.values() for rank in target.devices.members]
    assert volumes.total == sum(held)
    # None for -1.
    assert volumes.kept(np.full(places.size, -1)) == 0
    assert volumes.kept(np.zeros(places.size, int)) == sum(row[0] for row in wanted)


def test_what_all_ranks_hold_is_found_on_any_of_them() -> None:
    places = np.array([0, 1])
    for source, same in ((copies(4, 0, 1), True), (rows(4, 0, 1), False), (copies(4, 0), False)):
        (reduced,) = Volumes({"w": (source, rows(4, 0, 1))}, None, places, places).reduced_pairs
        assert reduced.is_same_everywhere() is same


@pytest.mark.parametrize("way", ["dense", "sparse", "orders of axes"])
def test_the_ranks_that_hold_the_parts_get_the_places(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way != "dense":
        monkeypatch.setattr(assignment, "DENSE_CELLS", 0)
    if way == "orders of axes":
        monkeypatch.setattr(assignment, "SPARSE_PAIRS", 0)
        source = Layout((6,), DeviceMatrix((2, 3)), ((1, 0),))
        pairs: dict[str, LayoutPair] = {"w": (source, Layout((6,), DeviceMatrix((3, 2)), ((0, 1),)))}
        assert find_relabeling(pairs, {"w": 3}) == Relabeling((0, 1, 2, 3, 4, 5), (0, 3, 1, 4, 2, 5), 18, 6, 18)
        return
    assert find_relabeling(SHIFTED, {"w": 3}) == Relabeling((0, 1, 2, 3), (3, 0, 1, 2), 24, 0, 24)


@pytest.mark.parametrize("way", ["dense", "sparse"])
def test_places_whose_ranks_are_as_good_as_any_keep_them(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "sparse":
        monkeypatch.setattr(assignment, "DENSE_CELLS", 0)
    pairs: dict[str, LayoutPair] = {"w": (copies(6, *range(6)), rows(6, 1, 3, 5))}
    assert find_relabeling(pairs, threshold=0) == Relabeling((1, 3, 5), (1, 3, 5), 6, 6, 6)
    # Rank 1 is not there any more, and its place needs another.
    assert find_relabeling(pairs, ranks=[0, 3, 5], threshold=1) == Relabeling((1, 3, 5), (0, 3, 5), 6, 4, 6)
    # Nobody holds anything, and of the others one place has to move.
    strangers: dict[str, LayoutPair] = {"w": (rows(4, 8, 9), rows(4, 0, 1))}
    assert find_relabeling(strangers, ranks=[1, 2, 3]).ranks in {(2, 1), (3, 1)}


@pytest.mark.parametrize("way", ["dense", "sparse"])
def test_of_ranks_that_hold_the_same_places_keep_their_own(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "sparse":
        monkeypatch.setattr(assignment, "DENSE_CELLS", 0)
    # Rank 5 holds nothing before, so its place is the only one that gains by a move.
    for first, second in combinations(range(4), 2):
        pairs: dict[str, LayoutPair] = {"w": (copies(6, 0, 1, 2, 3), rows(6, first, second, 5))}
        found = find_relabeling(pairs, threshold=0)
        assert (found.ranks[:2], found.kept, found.kept_before) == ((first, second), 6, 4)
        assert found.ranks[2] in {0, 1, 2, 3} - {first, second}


@pytest.mark.parametrize("way", ["dense", "sparse"])
def test_one_more_byte_in_place_is_worth_a_move_of_all(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "sparse":
        monkeypatch.setattr(assignment, "DENSE_CELLS", 0)
    # Where they are, the places find a byte each, of w. Swapped, they find one and two bytes, of v.
    pairs: dict[str, LayoutPair] = {"v": (rows(3, 0, 1), rows(3, 1, 0)), "w": (rows(2, 0, 1), rows(2, 0, 1))}
    assert find_relabeling(pairs, threshold=0) == Relabeling((0, 1), (1, 0), 3, 2, 5)
    assert find_relabeling(pairs, threshold=1 / 3) == Relabeling((0, 1), (0, 1), 2, 2, 5)


def test_a_place_whose_rank_is_above_all_that_are_offered_gets_another() -> None:
    layout = rows(4, 0, 9)
    found = find_relabeling({"w": (layout, layout)}, ranks=[0, 1], threshold=1)
    assert found == Relabeling((0, 9), (0, 1), 2, 2, 4)
    # The last that is offered may be the own one.
    assert find_relabeling({"w": (layout, layout)}, ranks=[0, 1, 9]).ranks == (0, 9)


def test_the_saving_is_the_share_of_what_would_move() -> None:
    assert Relabeling((0,), (1,), 7, 4, 10).saving == 0.5
    assert Relabeling((0,), (0,), 10, 10, 10).saving == 0.0
    layout = rows(4, 5, 3)
    found = Relabeling((3, 5), (9, 2), 0, 0, 0).apply(layout)
    assert found == rows(4, 2, 9)


@pytest.mark.parametrize("ranks", [[7], [7, 7], [-1, 7], [1, 1, 2], list(range(-1, 20))])
def test_ranks_that_are_too_few_or_not_distinct_are_refused_with_the_first_of_them(ranks: list[int]) -> None:
    with pytest.raises(ReshardError) as caught:
        relabel({"w": (rows(4, 0, 1), rows(4, 0, 1))}, ranks=ranks)
    assert str(caught.value) == (
        f"ranks {ranks[:8]} to choose from: the target has 2 places; give at least as many distinct ranks from 0"
    )
    assert relabel({"w": (rows(4, 0, 1), rows(4, 0, 1))}, ranks=[1, 0]) == (0, 1)
