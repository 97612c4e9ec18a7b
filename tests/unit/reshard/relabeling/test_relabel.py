"""Relabeling against all permutations, where there are few enough to try."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.errors import ReshardError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.forecast.traffic import traffic
from mpiparallel.reshard.planning.layout_digest import LayoutPair
from mpiparallel.reshard.relabeling import assignment
from mpiparallel.reshard.relabeling.relabel import Relabeling, find_relabeling, relabel
from tests.conformance import patience

pytest.importorskip("scipy.optimize")

Layouts = Callable[..., st.SearchStrategy[Layout]]
Shapes = Callable[..., st.SearchStrategy[tuple[int, ...]]]


def relabeled(pairs: dict[str, LayoutPair], found: Relabeling) -> dict[str, LayoutPair]:
    return {tensor: (source, found.apply(target)) for tensor, (source, target) in pairs.items()}


def bytes_in_place(pairs: dict[str, LayoutPair], itemsizes: dict[str, int], places: list[int], ranks: list[int]) -> int:
    """Return the bytes that the places find on their new ranks, box by box."""
    new = dict(zip(places, ranks, strict=True))
    total = 0
    for tensor, (source, target) in pairs.items():
        for place in target.devices.members:
            if new[place] in source.devices:
                box = source.box(new[place]).intersection(target.box(place))
                total += (box.size if box else 0) * itemsizes[tensor]
    return total


@pytest.mark.parametrize("dense_cells", [assignment.DENSE_CELLS, 0], ids=["dense", "sparse"])
@given(data=st.data())
def test_no_permutation_keeps_more(dense_cells: int, layouts: Layouts, shapes: Shapes, data: st.DataObject) -> None:
    pairs, itemsizes = {}, {}
    for tensor in data.draw(st.lists(st.sampled_from("wbm"), min_size=1, max_size=3, unique=True)):
        shape = data.draw(shapes())
        source, target = (data.draw(layouts(shape, last_rank=4, max_devices=5)) for _ in range(2))
        pairs[tensor] = (source, target)
        itemsizes[tensor] = data.draw(st.sampled_from([1, 2, 8]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assignment, "DENSE_CELLS", dense_cells)
        found = find_relabeling(pairs, itemsizes, threshold=0)
    places = sorted({rank for _, target in pairs.values() for rank in target.devices.members})
    ranks = sorted({rank for pair in pairs.values() for layout in pair for rank in layout.devices.members})
    best = max(bytes_in_place(pairs, itemsizes, places, list(order)) for order in permutations(ranks, len(places)))
    assert list(found.places) == places
    assert set(found.ranks) <= set(ranks)
    assert len(set(found.ranks)) == len(places)
    assert found.kept == bytes_in_place(pairs, itemsizes, places, list(found.ranks)) == best
    assert found.kept_before == bytes_in_place(pairs, itemsizes, places, places)
    assert (best > found.kept_before) == (found.ranks != found.places)
    after = traffic(relabeled(pairs, found), None, itemsizes)
    assert (after.bytes_kept, after.bytes_moved) == (found.kept, found.total - found.kept)


@pytest.mark.parametrize("data_parallel", [1, 2, 3, 8])
@pytest.mark.parametrize("model_parallel", [2, 3, 4])
def test_a_swap_of_the_axes_of_data_and_model_parallelism_moves_nothing(
    data_parallel: int, model_parallel: int
) -> None:
    source = Layout((24, 24), DeviceMatrix((data_parallel, model_parallel)), ((), (1,)))
    target = Layout((24, 24), DeviceMatrix((model_parallel, data_parallel)), ((), (0,)))
    found = find_relabeling({"w": (source, target)})
    assert found.kept == found.total
    assert traffic(relabeled({"w": (source, target)}, found)).bytes_moved == 0


def test_the_swap_is_found_for_sixteen_thousand_ranks_that_hold_replicas() -> None:
    source = Layout((16, 16), DeviceMatrix((2048, 8)), ((), (1,)))
    target = Layout((16, 16), DeviceMatrix((8, 2048)), ((), (0,)))
    found = find_relabeling({"w": (source, target)})
    assert found.kept == found.total > found.kept_before


def test_of_a_target_with_other_tensors_on_fewer_ranks_the_axes_are_swapped_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As where the table of ranks is too large: only orders of the axes are tried.
    monkeypatch.setattr(assignment, "DENSE_CELLS", 0)
    monkeypatch.setattr(assignment, "SPARSE_PAIRS", 0)
    swapped = Layout((24, 24), DeviceMatrix((2, 4)), ((), (1,))), Layout((24, 24), DeviceMatrix((4, 2)), ((), (0,)))
    few = Layout.replicated((8,), DeviceMatrix((8,))), Layout.replicated((8,), DeviceMatrix((2, 2)))
    found = find_relabeling({"b": few, "w": swapped})
    assert found.kept == found.total > found.kept_before


@pytest.mark.parametrize("dense_cells", [assignment.DENSE_CELLS, 0], ids=["dense", "sparse"])
def test_a_state_without_elements_leaves_each_rank_at_its_place(
    dense_cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assignment, "DENSE_CELLS", dense_cells)
    nothing = Layout((0, 4), DeviceMatrix((2, 2)), ((0,), ())), Layout((0, 4), DeviceMatrix((4,)), ((), (0,)))
    found = find_relabeling({"w": nothing})
    assert (found.ranks, found.kept, found.total) == ((0, 1, 2, 3), 0, 0)


def test_ranks_are_left_alone_below_the_threshold() -> None:
    devices = DeviceMatrix((2, 2))
    moving = tuple(Layout((8,), devices, (axes,)) for axes in ((0, 1), (1, 0)))
    spread = tuple(Layout((40, 40), DeviceMatrix((4,)), cut) for cut in (((0,), ()), ((), (0,))))
    pairs = {"small": (moving[0], moving[1]), "large": (spread[0], spread[1])}
    saving = find_relabeling(pairs, threshold=0).saving
    assert 0 < saving < 0.1
    assert relabel(pairs) == (0, 1, 2, 3)
    assert relabel(pairs, threshold=saving * 0.99) == (0, 2, 1, 3)
    assert relabel(pairs, threshold=saving) == (0, 1, 2, 3)


def test_fewer_ranks_are_chosen_among_those_that_hold_the_most() -> None:
    source = Layout((8,), DeviceMatrix((4,)), ((0,),))
    target = Layout((8,), DeviceMatrix((2,)), ((0,),))
    found = find_relabeling({"w": (source, target)})
    assert (found.kept_before, found.kept) == (2, 4)
    assert found.ranks in {(0, 2), (0, 3)}


def test_only_the_ranks_that_are_offered_are_taken() -> None:
    layout = Layout((8,), DeviceMatrix((2,)), ((0,),))
    assert sorted(relabel({"w": (layout, layout)}, ranks=[7, 1])) == [1, 7]
    assert relabel({"w": (layout, layout)}, ranks=[7, 1])[1] == 1
    for ranks in ([1], [1, 1], [-1, 1]):
        with pytest.raises(ReshardError, match="the target has 2 places; give at least as many distinct ranks from 0"):
            relabel({"w": (layout, layout)}, ranks=ranks)


def test_without_scipy_the_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['scipy'] = None\n"
        "from mpiparallel.layout.device_matrix import DeviceMatrix\n"
        "from mpiparallel.layout.layout import Layout\n"
        "from mpiparallel.reshard.relabeling.relabel import relabel\n"
        "layout = Layout((8,), DeviceMatrix((2,)), ((0,),))\n"
        "relabel({'w': (layout, layout)})\n"
    )
    ended = patience.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 1
    assert "ConfigurationError: relabeling needs SciPy; pip install mpiparallel[relabel]" in ended.stderr


def test_importing_it_does_not_import_scipy() -> None:
    program = "import sys, mpiparallel.reshard.relabeling.relabel; print('scipy' in sys.modules)"
    ended = patience.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"


@pytest.mark.parametrize("dense_cells", [assignment.DENSE_CELLS, 0], ids=["dense", "sparse"])
def test_where_nothing_moves_or_nothing_is_shared_places_keep_their_ranks(
    dense_cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assignment, "DENSE_CELLS", dense_cells)
    assert find_relabeling({}) == Relabeling((), (), 0, 0, 0)
    empty = Layout((0,), DeviceMatrix((2,)), ((0,),))
    assert find_relabeling({"w": (empty, Layout((0,), DeviceMatrix((3,)), ((),)))}).ranks == (0, 1, 2)


def test_a_place_without_a_candidate_gets_its_own_if_that_is_free_else_the_first_that_is() -> None:
    fill = assignment._without_scarcity
    assert fill(np.array([1, -1, -1, 4]), 6, np.array([1, 3, 1, -1])).tolist() == [1, 3, 0, 4]
    assert fill(np.array([-1, -1, -1]), 4, np.array([2, 2, -1])).tolist() == [2, 0, 1]
    assert fill(np.array([2, -1]), 3).tolist() == [2, 0]
    assert fill(np.array([-1, -1]), 2, np.array([-1, 0])).tolist() == [1, 0]
