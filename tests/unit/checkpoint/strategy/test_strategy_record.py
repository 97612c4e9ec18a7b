from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.checkpoint.strategy.strategy_record import LayoutItem, StrategyItem, StrategyRecord
from mpiparallel.errors import StrategyFileError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

Layouts = Callable[..., st.SearchStrategy[Layout]]


def ranks_of(layout: Layout) -> range:
    return range(layout.devices.first_rank, layout.devices.first_rank + layout.devices.size)


@given(st.data(), st.sampled_from([-1, 2]))
def test_a_layout_that_can_be_said_comes_back_with_the_same_boxes(
    layouts: Layouts, data: st.DataObject, size: int
) -> None:
    layout = data.draw(layouts())
    try:
        item = LayoutItem.of(layout, size)
    except StrategyFileError:
        assert layout.optimizer_axes or any(len(axes) > 1 for axes in layout.canonical.tensor_map)
        return
    back = item.layout(first_rank=layout.devices.first_rank)
    assert back.canonical == layout.canonical
    assert [back.box(rank) for rank in ranks_of(back)] == [layout.box(rank) for rank in ranks_of(layout)]


@pytest.mark.parametrize(
    ("layout", "item"),
    [
        (Layout((64, 32), DeviceMatrix((2, 4, 1)), ((1,), (2,))), ((2, 4), ((1,), ()), 0, 0)),
        (Layout((64, 32), DeviceMatrix((8,)), ((), ())), ((8,), ((), ()), 0, 0)),
        (Layout((64, 32), DeviceMatrix((4, 2)), ((), ())), ((4, 2), ((), ()), 0, 0)),
        (Layout((64, 32), DeviceMatrix((1, 1)), ((0,), (1,))), ((1,), ((), ()), 0, 0)),
        (Layout((64, 32), DeviceMatrix((2, 4)), ((0, 1), ())), ((8,), ((0,), ()), 0, 0)),
        (Layout((64, 32), DeviceMatrix((2, 4)), ((), (1,)), optimizer_axes=(0,)), ((2, 4), ((), (1,)), 4, -1)),
        (Layout((64, 32), DeviceMatrix((2, 2, 2)), ((), (1,)), optimizer_axes=(0, 2)), ((2, 2, 2), ((), (1,)), 1, -1)),
        (Layout((64, 32), DeviceMatrix((4, 2)), ((), ()), optimizer_axes=(1,)), ((4, 2), ((), ()), 1, 2)),
    ],
)
def test_axes_of_one_device_are_dropped_and_no_others(layout: Layout, item: tuple[Any, ...]) -> None:
    assert LayoutItem.of(layout) == LayoutItem(*item, tensor_shape=(64, 32))


@pytest.mark.parametrize(
    ("item", "boxes"),
    [
        # Rows that ranks 0 to 7 hold of a weight of 8 rows, as MindSpore's planner shards it.
        (LayoutItem((2, 2, 2), ((), (1,)), 1, -1), [0, 2, 0, 2, 4, 6, 4, 6]),
        (LayoutItem((8,), ((), ()), 1, 2), [0, 4, 0, 4, 0, 4, 0, 4]),
        (LayoutItem((8,), ((), ()), 1, 4), [0, 2, 4, 6, 0, 2, 4, 6]),
        (LayoutItem((2, 4), ((), (1,)), 4, -1), [0, 0, 0, 0, 4, 4, 4, 4]),
    ],
)
def test_optimizer_shards_are_consecutive_chunks_of_the_replicas(item: LayoutItem, boxes: list[int]) -> None:
    assert [item.layout((8, 8)).box(rank).start[0] for rank in range(8)] == boxes


@pytest.mark.parametrize(
    "layout",
    [
        Layout((8, 8), DeviceMatrix((2, 2)), ((1, 0), ())),
        Layout((8, 8), DeviceMatrix((2, 2)), ((), ()), partial=(0,)),
        Layout((8, 8), DeviceMatrix((2, 2)), ((), ()), optimizer_axes=(0,)),
        Layout((8, 8), DeviceMatrix((2, 2)), ((), ()), optimizer_axes=(1, 0)),
        Layout((8, 8), DeviceMatrix((2, 2), ranks=(0, 2, 1, 3)), ((0,), (1,))),
        Layout((8, 8), DeviceMatrix((2,)), ((), (0,))).with_bounds([(), ((0, 3), (3, 8))]),
        Layout((8, 8), DeviceMatrix((2,)), ((0,), ())).with_bounds([((0, 5), (3, 8)), ()]),
    ],
)
def test_a_layout_without_words_is_refused(layout: Layout) -> None:
    with pytest.raises(StrategyFileError, match=r'^parameter "w": '):
        StrategyRecord.of({"w": layout}, {})


@pytest.mark.parametrize(
    "values",
    [
        {"device_matrix": ()},
        {"device_matrix": (0, 2)},
        {"device_matrix": (2**16, 2**15)},
        {"device_matrix": (1,) * 65},
        {"tensor_map": ((2,), ())},
        {"tensor_map": ((0,), (0,))},
        {"tensor_map": ((-1,), ())},
        {"opt_weight_shard_size": -2},
        {"opt_weight_shard_size": 3, "opt_weight_shard_step": 1},
        {"opt_weight_shard_size": 2, "opt_weight_shard_step": 5},
        {"opt_weight_shard_size": 0, "opt_weight_shard_step": 4},
        {"opt_weight_shard_size": -1, "opt_weight_shard_step": 0},
        {"field": -1},
        {"param_split_shape": (1, 7), "indices_offset": (0,)},
        {"tensor_shape": (8,)},
        {"tensor_shape": (-8, 8)},
        {"tensor_map": ((0, 1), ())},
        {"tensor_map": (), "opt_weight_shard_size": -1, "opt_weight_shard_step": 1},
    ],
)
def test_contradicting_values_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(StrategyFileError):
        LayoutItem(**{"device_matrix": (2, 4), "tensor_map": ((), (1,)), **values})


def test_shape_must_be_known_and_fit() -> None:
    with pytest.raises(StrategyFileError, match="give global_shape"):
        LayoutItem((2,), ((0,),)).layout()
    with pytest.raises(StrategyFileError, match="not \\(9,\\)"):
        LayoutItem((2,), ((0,),), tensor_shape=(8,)).layout((9,))
    with pytest.raises(StrategyFileError, match=r'parameter "w": .*give each dim'):
        StrategyRecord({"w": LayoutItem((2,), ((0,),))}, {}).resolve({"w": (8, 8)})


def test_cuts_by_bounds_have_no_layout() -> None:
    table = LayoutItem((2,), ((0,), ()), param_split_shape=(1, 7), indices_offset=(0, 1))
    with pytest.raises(StrategyFileError, match="manual_split"):
        table.layout((8, 4))


@pytest.mark.parametrize("cuts", [((0, 1),), ((2, -1),), ((2**16, 2**15),)])
def test_a_strategy_that_is_none_is_refused(cuts: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(StrategyFileError):
        StrategyItem(cuts)
