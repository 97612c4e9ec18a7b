from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from mpiparallel.checkpoint.strategy.strategy_record import LayoutItem
from mpiparallel.checkpoint.transform.checkpoints import transform_checkpoint_by_rank, transform_checkpoints
from mpiparallel.checkpoint.transform.rank_list import rank_list_for_transform
from mpiparallel.errors import StrategyFileError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.unit.checkpoint.transform.stored_slices import (
    assert_same,
    numbers,
    read_slices,
    slices_of,
    write_layouts,
    write_state,
)

Drawn = Callable[..., st.SearchStrategy[Layout]]
Shapes = Callable[[], st.SearchStrategy[tuple[int, ...]]]


def storable(layout: Layout) -> bool:
    """Return whether a strategy file has words for a layout."""
    try:
        LayoutItem.of(layout)
    except StrategyFileError:
        return False
    return True


def has_empty_vector(layout: Layout) -> bool:
    """Return whether a rank holds an array of shape (0,)."""
    return any(layout.local_shape(rank) == (0,) for rank in range(layout.devices.size))


@settings(max_examples=60, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(data=st.data())
def test_m_ranks_to_n_ranks_is_numpy_slicing_from_all_files_and_from_those_that_are_listed(
    layouts: Drawn,
    shapes: Callable[[], st.SearchStrategy],
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
) -> None:
    shape = data.draw(shapes())
    pair = [data.draw(layouts(shape)) for _ in range(2)]
    source, target = (replace(layout, devices=DeviceMatrix(layout.devices.shape)) for layout in pair)
    assume(storable(source) and storable(target))
    dtype = data.draw(st.sampled_from(["float32", "int8", "float16", "bool"]))
    suffix = data.draw(st.sampled_from(["ckpt", "h5", "safetensors"]))
    # MindSpore's files have no word for a 1-D array without elements.
    assume(suffix != "ckpt" or not any(has_empty_vector(layout) for layout in (source, target)))
    kind = data.draw(st.sampled_from(["ckpt", "json"]))
    whole = {"w-1": numbers(shape, dtype)}
    folder = tmp_path_factory.mktemp("any")
    write_state(folder / "in", whole, {"w-1": source}, source.devices.size, f"net-1_7.{suffix}")
    strategies = (
        write_layouts(folder / f"s.{kind}", {"w-1": source}),
        write_layouts(folder / f"t.{kind}", {"w-1": target}),
    )

    report = transform_checkpoints(folder / "in", folder / "out", "net", *strategies, compare_replicas=True)
    assert list(report.files) == list(range(target.devices.size))
    for rank, path in report.files.items():
        assert_same(read_slices(path), slices_of(whole, {"w-1": target}, rank))

    if kind == "json":  # which tells how long dims are, so that the list is right for uneven cuts too
        rank = data.draw(st.integers(0, target.devices.size - 1))
        alone = files_of(folder, rank_list_for_transform(rank, *strategies), suffix)
        transform_checkpoint_by_rank(rank, alone, folder / f"one.{suffix}", *strategies)
        assert_same(read_slices(folder / f"one.{suffix}"), slices_of(whole, {"w-1": target}, rank))


def files_of(folder: Path, ranks: list[int], suffix: str) -> dict[int, Path]:
    """Return the files of some ranks, moved to where no others lie beside them."""
    files = {rank: folder / f"of_{rank}.{suffix}" for rank in ranks}
    for rank, path in files.items():
        (folder / "in" / f"rank_{rank}" / f"net-1_7.{suffix}").rename(path)
    return files
