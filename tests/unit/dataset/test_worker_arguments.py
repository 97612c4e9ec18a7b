"""What a pipeline is told about workers changes nothing, says so once, and must be a count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mpiparallel.dataset as ds
from mpiparallel.dataset.worker_arguments import remark_on_workers
from mpiparallel.errors import DatasetError

NUMBERS = ds.NumpySlicesDataset(np.arange(4), "x", shuffle=False)


def test_workers_have_no_effect_and_a_line_says_so_once(remarks: Callable[[], list[str]]) -> None:
    for _ in range(2):
        remark_on_workers("Cifar10Dataset", num_parallel_workers=4, cache="a cache")
    assert [line.split(": one thread")[0] for line in remarks()] == [
        "Cifar10Dataset: num_parallel_workers=4 has no effect here",
        "Cifar10Dataset: cache='a cache' has no effect here",
    ]


@pytest.mark.parametrize("wrong", [0, -1, "2", 1.5, True])
@pytest.mark.parametrize(
    "build",
    [
        lambda count: ds.Cifar10Dataset(Path("nowhere"), num_parallel_workers=count),
        lambda count: ds.MnistDataset(Path("nowhere"), num_parallel_workers=count),
        lambda count: ds.GeneratorDataset([(1,)], ["x"], num_parallel_workers=count),
        lambda count: ds.NumpySlicesDataset(np.arange(4), num_parallel_workers=count),
        lambda count: NUMBERS.map(abs, num_parallel_workers=count),
        lambda count: NUMBERS.batch(2, num_parallel_workers=count),
    ],
)
def test_a_count_of_workers_is_a_count(build: Callable[[Any], Any], wrong: Any) -> None:
    with pytest.raises(DatasetError, match=r"num_parallel_workers is .*; give an integer of 1 or more"):
        build(wrong)


def test_workers_in_the_place_of_a_column_order_are_refused() -> None:
    with pytest.raises(DatasetError, match="name the argument num_parallel_workers=4"):
        NUMBERS.map(abs, "x", "x", 4)  # type: ignore[arg-type]
