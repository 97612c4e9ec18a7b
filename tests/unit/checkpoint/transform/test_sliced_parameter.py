from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mpiparallel.checkpoint.strategy.strategy_file import build_searched_strategy
from mpiparallel.checkpoint.strategy.strategy_record import LayoutItem
from mpiparallel.checkpoint.transform.checkpoints import transform_checkpoints
from mpiparallel.checkpoint.transform.sliced_parameter import merge_slices
from mpiparallel.errors import MpiParallelError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.unit.checkpoint.transform import tutorial_values as tutorial
from tests.unit.checkpoint.transform.stored_slices import (
    assert_same,
    numbers,
    numpy_slice,
    read_slices,
    write_layouts,
    write_slices,
)

SCALARS = {"learning_rate": np.array([0.01], np.float32), "momentum": np.array([0.9], np.float32)}


def values(printed: tuple[tuple[float, ...], ...]) -> np.ndarray:
    return np.array(printed, np.float32)


def rows(devices: int) -> dict[str, Layout]:
    layout = Layout((8, 8), DeviceMatrix((devices,)), ((0,), ()))
    return {"weight": layout, "moments.weight": layout}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The files of the tutorial's four devices."""
    weights = np.split(values(tutorial.SAVED_WEIGHT), 4)
    moments = np.split(values(tutorial.SAVED_MOMENTS_WEIGHT), 4)
    for rank, (weight, moment) in enumerate(zip(weights, moments, strict=True)):
        arrays = {"weight": weight, "moments.weight": moment, **SCALARS}
        write_slices(tmp_path / "saved" / f"rank_{rank}" / "CKP-4_32.ckpt", arrays)
    return tmp_path / "saved"


def test_four_devices_integrated_and_loaded_on_two_have_the_values_of_the_tutorial(saved: Path, tmp_path: Path) -> None:
    """The moments are those printed. The tutorial's merged weight is not that of its own inputs: its rows 0 to 5 are of
    another run. So the weight is held against the concatenation of the four slices printed.
    """
    weight, moments = values(tutorial.SAVED_WEIGHT), values(tutorial.INTEGRATED_MOMENTS_WEIGHT)
    four, two = write_layouts(tmp_path / "4.ckpt", rows(4)), write_layouts(tmp_path / "2.ckpt", rows(2))

    transform_checkpoints(saved, tmp_path / "whole", "CKP-Integrated", four)
    integrated = read_slices(tmp_path / "whole" / "rank_0" / "CKP-Integrated0.ckpt")
    assert_same(integrated, {"weight": weight, "moments.weight": moments, **SCALARS})
    assert (integrated["weight"][6:] == values(tutorial.INTEGRATED_WEIGHT)[6:]).all()

    transform_checkpoints(tmp_path / "whole", tmp_path / "two", "CKP", None, two)
    loaded = np.split(values(tutorial.LOADED_MOMENTS_WEIGHT), 2)
    for rank in (0, 1):
        found = read_slices(tmp_path / "two" / f"rank_{rank}" / f"CKP{rank}.ckpt")
        assert_same(found, {"weight": weight[4 * rank : 4 * rank + 4], "moments.weight": loaded[rank], **SCALARS})


def test_slices_in_memory_merge_to_the_moments_of_the_tutorial(saved: Path, tmp_path: Path) -> None:
    strategy = build_searched_strategy(str(write_layouts(tmp_path / "4.ckpt", rows(4))))
    slices = [read_slices(saved / f"rank_{rank}" / "CKP-4_32.ckpt")["moments.weight"] for rank in range(4)]
    whole = values(tutorial.INTEGRATED_MOMENTS_WEIGHT)
    assert merge_slices(slices, strategy["moments.weight"]).tobytes() == whole.tobytes()
    assert merge_slices(slices).tobytes() == whole.tobytes()


@pytest.mark.parametrize(
    ("layout", "size"),
    [
        (Layout((32, 16), DeviceMatrix((2, 4)), ((1,), ()), optimizer_axes=(0,)), -1),
        (Layout((32, 16), DeviceMatrix((8,)), ((), ()), optimizer_axes=(0,)), -1),
        (Layout((32, 16), DeviceMatrix((4, 2)), ((), ()), optimizer_axes=(1,)), 2),
        (Layout((7, 5), DeviceMatrix((2, 3)), ((0,), (1,))), -1),
        (Layout((7, 5), DeviceMatrix((3, 2)), ((), (1,)), optimizer_axes=(0,)), -1),
        (Layout((5,), DeviceMatrix((2, 2)), ((1,),)), -1),
        (Layout((), DeviceMatrix((3,)), ()), -1),
    ],
)
def test_optimizer_shards_uneven_cuts_and_copies_are_merged(layout: Layout, size: int) -> None:
    whole = numbers(layout.global_shape)
    slices = [numpy_slice(whole, layout, rank) for rank in range(layout.devices.size)]
    merged = merge_slices(slices, LayoutItem.of(layout, size))
    assert (merged.shape, merged.tobytes()) == (whole.shape, whole.tobytes())


def test_slices_by_the_users_own_bounds_are_merged() -> None:
    table = LayoutItem((2, 3), ((1,), ()), param_split_shape=(1, 7, 8), indices_offset=(0, 1, 8))
    whole = numbers((16, 2))
    assert merge_slices(np.split(whole, [1, 8]) * 2, table).tobytes() == whole.tobytes()


@pytest.mark.parametrize(
    ("slices", "item", "reason"),
    [
        ([], None, "there is no slice"),
        ([numbers((2, 2))], LayoutItem((2,), ((0,), ())), "there are 1 slices for 2 ranks"),
        ([numbers((2, 2)), numbers((2, 3))], LayoutItem((2,), ((0,), ())), "same part of dim 1, but 2 and 3"),
        ([numbers((2, 2)), numbers((2,))], None, "has 1 dims on rank 1, 2 in the strategy"),
        ([numbers((1, 2)), numbers((2, 2))], LayoutItem((2,), ((0,), ())), "where float32 of shape .2, 2. belongs"),
        ([numbers((2,)), numbers((2,), "int8")], None, "slice of rank 1 is int8"),
        (
            [numbers((2,)), numbers((2,), start=1)],
            LayoutItem((2,), ((),)),
            "ranks 0 and 1 hold the same slice",
        ),
        ([numbers((2, 2))] * 2, LayoutItem((2,), ((0,), ()), field=2), "cut by bounds"),
        ([numbers((2, 2))] * 2, LayoutItem((2,), ((0,), ()), param_split_shape=(1, 7)), "does not fit shape"),
        ([numbers((2, 2))], LayoutItem((1,), ((), ()), tensor_shape=(1 << 40, 1 << 20)), "where float32 of shape"),
    ],
)
def test_what_does_not_fit_together_is_refused(slices: list[np.ndarray], item: LayoutItem | None, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        merge_slices(slices, item)
    assert isinstance(caught.value, MpiParallelError)
