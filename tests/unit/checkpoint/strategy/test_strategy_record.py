from __future__ import annotations

from collections.abc import Callable
from itertools import product
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


LARGEST = 2**31 - 1


@pytest.mark.parametrize(
    ("device_matrix", "tensor_map"),
    [
        ((8,), ((), ())),
        ((2, 4), ((), ())),
        ((4, 3, 2), ((), ())),
        ((2, 1, 4), ((), ())),
        ((2, 3, 4), ((1,), ())),
        ((3, 2, 2), ((), (1,))),
        ((2, 2, 3), ((2,), (0,))),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 8, 12, 24, -1])
def test_a_rank_has_the_shard_of_its_place_among_those_with_the_same_part(
    device_matrix: tuple[int, ...], tensor_map: tuple[tuple[int, ...], ...], size: int
) -> None:
    places = list(product(*map(range, device_matrix)))
    used = [axis for axes in tensor_map for axis in axes]
    groups = [
        [other for other, place in enumerate(places) if all(place[axis] == own[axis] for axis in used)]
        for own in places
    ]
    shards = len(groups[0]) if size == -1 else size
    # So many shards are whole chunks of neighbours: of all axes from the right, the last of them maybe in part.
    extents = [extent for axis, extent in enumerate(device_matrix) if axis not in used and extent > 1][::-1]
    left = shards
    while extents and left % extents[0] == 0:
        left //= extents.pop(0)
    fits = left == 1 or bool(extents and extents[0] % left == 0)
    step = (groups[0][min(shards, len(groups[0])) - 1] - groups[0][0]) // max(1, shards - 1)
    values = (device_matrix, tensor_map, step, size)
    if not fits:
        with pytest.raises(StrategyFileError, match=f"opt_weight_shard_size {size} does not fit the "):
            LayoutItem(*values)
        return
    layout = LayoutItem(*values).layout((48, 48))
    for rank, group in enumerate(groups):
        axes = tensor_map[0]
        rows = 48 // (device_matrix[axes[0]] if axes else 1)
        first = rows * (places[rank][axes[0]] if axes else 0)
        start = first + rows // shards * (group.index(rank) % shards)
        assert (layout.box(rank).start[0], layout.box(rank).stop[0]) == (start, start + rows // shards)


@pytest.mark.parametrize(
    ("axes", "option", "said"), [((0, 1), -1, -1), ((0, 1), 4, 4), ((1,), -1, 2), ((1,), 2, 2), ((), -1, 0)]
)
def test_shards_that_take_up_all_replicas_are_said_as_the_option_says_them(
    axes: tuple[int, ...], option: int, said: int
) -> None:
    layout = Layout((8, 8), DeviceMatrix((2, 2)), ((), ()), optimizer_axes=axes)
    assert LayoutItem.of(layout, option).opt_weight_shard_size == said


def test_bounds_of_dim_0_are_said_as_lengths_and_beginnings() -> None:
    layout = Layout((8, 3), DeviceMatrix((2,)), ((0,), ())).with_bounds([((0, 3), (3, 8)), ()])
    item = LayoutItem.of(layout)
    assert (item.param_split_shape, item.indices_offset, item.tensor_shape) == ((3, 5), (0, 3), (8, 3))


@pytest.mark.parametrize(
    "values",
    [
        {"device_matrix": (LARGEST,), "tensor_map": ((0,), ())},
        {"device_matrix": (1,) * 64, "tensor_map": ((63,), (0,))},
        {"tensor_map": ((),) * 64},
        {"tensor_shape": (2**63 - 1, 0)},
        {"field": LARGEST},
        {"param_split_shape": (0, 2**63 - 1), "indices_offset": (0, 0)},
        {"param_split_shape": (1, 7)},
    ],
)
def test_the_largest_numbers_of_a_file_are_taken(values: dict[str, Any]) -> None:
    LayoutItem(**{"device_matrix": (2, 4), "tensor_map": ((), (1,)), **values})


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"tensor_map": ((),) * 65}, "it has more than 64 axes or dims; NumPy knows no such arrays"),
        (
            {"device_matrix": (LARGEST + 1,), "tensor_map": ((), ())},
            f"device matrix [{LARGEST + 1}] is not one; each axis needs a device, all axes together at most {LARGEST}",
        ),
        (
            {"tensor_map": ((2,), ())},
            "tensor map ((2,), ()) does not fit device matrix [2, 4]; each axis may cut one dim",
        ),
        ({"tensor_map": ((0, 1), ())}, "tensor map ((0, 1), ()): a strategy file holds one axis for each dim"),
        ({"tensor_shape": (2**63, 1)}, f"shapes ({2**63}, 1) are not shapes; extents are 0 to {2**63 - 1}"),
        ({"indices_offset": (-1,)}, f"shapes (-1,) are not shapes; extents are 0 to {2**63 - 1}"),
        ({"tensor_shape": (8,)}, "tensor map ((), (1,)) does not fit shape (8,); give each dim one entry"),
        ({"field": LARGEST + 1}, f"field {LARGEST + 1} is not one; it is a number of columns, or 0"),
        (
            {"indices_offset": (0, 1)},
            "param_split_shape has 0 entries, indices_offset 2; give each slice one of each",
        ),
        ({"opt_weight_shard_size": -2}, "opt_weight_shard_size -2 is not one; use -1, 0 or more"),
        (
            {"opt_weight_shard_size": LARGEST + 1},
            f"opt_weight_shard_size {LARGEST + 1} is not one; use -1, 0 or more",
        ),
        (
            {"opt_weight_shard_size": LARGEST},
            f"opt_weight_shard_size {LARGEST} does not fit the [2, 4] devices, where axes (0,) hold replicas; use a "
            "product of the last of these",
        ),
        (
            {"opt_weight_shard_size": 4},
            "opt_weight_shard_size 4 does not fit the [2, 4] devices, where axes (0,) hold replicas; use a product of "
            "the last of these",
        ),
        (
            {"opt_weight_shard_size": 2, "opt_weight_shard_step": 5},
            "opt_weight_shard_step 5 contradicts opt_weight_shard_size 2 on device matrix [2, 4], where it is 4",
        ),
        (
            {"tensor_map": (), "opt_weight_shard_size": 2, "opt_weight_shard_step": 1},
            "a 0-d tensor has no dim 0 for an optimizer shard to cut",
        ),
    ],
)
def test_what_contradicts_itself_is_told(values: dict[str, Any], said: str) -> None:
    with pytest.raises(StrategyFileError) as caught:
        LayoutItem(**{"device_matrix": (2, 4), "tensor_map": ((), (1,)), **values})
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("cuts", "stage", "said"),
    [
        (((1, 0),), 0, "strategy ((1, 0),) has a cut below 1; write 1 for an uncut dim"),
        (((2**16, 2**15),), 0, f"strategy ((65536, 32768),) cuts an input into more than {LARGEST} parts"),
        (((1,),), -1, "stage -1 is not one; stages are counted from 0"),
        (((1,),), LARGEST + 1, f"stage {LARGEST + 1} is not one; stages are counted from 0"),
    ],
)
def test_a_strategy_that_cannot_be_is_told(cuts: Any, stage: int, said: str) -> None:
    with pytest.raises(StrategyFileError) as caught:
        StrategyItem(cuts, stage)
    assert str(caught.value) == said
    assert StrategyItem(((LARGEST, 1), ()), LARGEST).stage == LARGEST


@pytest.mark.parametrize("name", ["", "a\0", "\ud800"])
def test_a_name_that_no_file_can_hold_is_refused_of_parameters_and_operators(name: str) -> None:
    said = f"{name!r} is no name; parameters and operators need printable names"
    for layouts, strategies in (({name: LayoutItem((2,), ((0,),))}, {}), ({}, {name: StrategyItem(((1,),))})):
        with pytest.raises(StrategyFileError) as caught:
            StrategyRecord(layouts, strategies)
        assert str(caught.value) == said


@pytest.mark.parametrize("stage", [-1, LARGEST + 1])
def test_a_stage_of_a_file_that_cannot_be_is_refused(stage: int) -> None:
    with pytest.raises(StrategyFileError, match=f"^current_stage {stage} is not one; training writes 2, merging 1$"):
        StrategyRecord({}, {}, stage)
    assert StrategyRecord({}, {}, LARGEST).current_stage == LARGEST
