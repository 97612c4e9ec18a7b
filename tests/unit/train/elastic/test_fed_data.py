"""The data of a rank are dealt out anew when other ranks train, so that each step has the same samples."""

from __future__ import annotations

import re

import numpy as np
import pytest

from mpiparallel.dataset import Dataset, NumpySlicesDataset
from mpiparallel.errors import DatasetError
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.train.elastic.fed_data import FedData


def part(rank: int, ranks: int = 4, batch: int = 3) -> Dataset:
    """Return the data of a rank of four, of which each step takes twelve samples."""
    columns = np.arange(24), ["x"]
    return NumpySlicesDataset(*columns, shuffle=False, num_shards=ranks, shard_id=rank).batch(batch)


def of_rank(rank: int, full_batch: bool = False) -> ParallelConfiguration:
    return ParallelConfiguration("data_parallel", rank=rank, full_batch=full_batch)


def samples(dataset: Dataset) -> list[list[int]]:
    return [batch["x"].tolist() for batch in dataset.iterate()]


@pytest.mark.parametrize("ranks", [1, 2, 3, 6, 12])
def test_all_ranks_together_are_fed_the_same_samples_in_each_step(ranks: int) -> None:
    data = FedData(part(2))
    numbers = [0, 1, 2, 3]
    assert samples(data.dealt_to(numbers, of_rank(2))) == samples(part(2))
    pieces = [samples(data.dealt_to(range(10, 10 + ranks), of_rank(rank))) for rank in range(ranks)]
    for step, first in enumerate((0, 12)):
        assert sorted(one for piece in pieces for one in piece[step]) == list(range(first, first + 12))
        assert {len(piece[step]) for piece in pieces} == {12 // ranks}


def test_who_trains_as_before_or_is_fed_all_keeps_the_dataset_that_was_given() -> None:
    given = part(1)
    data = FedData(given)
    assert data.dealt_to([4, 7, 1, 2], of_rank(1)) is given
    assert data.dealt_to((4, 7, 1, 2), of_rank(0)) is given
    assert data.dealt_to([4, 7], of_rank(0)) is not given
    assert data.dealt_to([4, 7], of_rank(0, full_batch=True)) is given
    # In another order ranks take other parts.
    assert data.dealt_to([7, 4, 1, 2], of_rank(0)) is not given


def test_a_rank_that_joins_knows_from_the_others_for_whom_the_data_were_made() -> None:
    first, joining = FedData(part(0)), FedData(part(0))
    first.dealt_to([0, 1, 2, 3], of_rank(0))
    assert first.position() == {"ranks": [0, 1, 2, 3], "rows": 12}
    joining.take_position(first.position())
    dealt = samples(joining.dealt_to([0, 1, 2, 3, 4, 5], of_rank(5)))
    assert dealt == samples(first.dealt_to([0, 1, 2, 3, 4, 5], of_rank(5)))
    assert {len(batch) for batch in dealt} == {2}


def test_rows_that_ranks_cannot_share_are_refused_with_their_number() -> None:
    data = FedData(part(0))
    data.dealt_to([0, 1, 2, 3], of_rank(0))
    words = "the batch of all ranks has 12 rows, which 5 ranks cannot share evenly; choose ranks whose number divides"
    with pytest.raises(DatasetError, match=re.escape(words)):
        data.dealt_to(range(5), of_rank(0))


def test_data_that_do_not_say_which_part_they_are_are_refused_once_other_ranks_train() -> None:
    data = FedData(NumpySlicesDataset(np.arange(12), ["x"], shuffle=False).batch(3))
    data.dealt_to([0, 1], of_rank(0))
    assert len(samples(data.dealt_to([0, 1], of_rank(0)))) == 4
    with pytest.raises(DatasetError, match="each rank is fed data of its own, and this dataset does not say which"):
        data.dealt_to([0], of_rank(0))
