"""A dataset dealt out to other shards: all of them together read the same samples in each batch."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel.dataset import GeneratorDataset, NumpySlicesDataset
from mpiparallel.errors import DatasetError


def shard(count, number, samples=48):
    source = NumpySlicesDataset(np.arange(samples), "x", shuffle=True, num_shards=count, shard_id=number)
    return source.map(lambda value: value * 10).batch(24 // count).shuffle(2).repeat(2).take(3)


def batches(datasets, epoch):
    """Return the samples of each batch of all shards together, sorted."""
    read = [[batch["x"] for batch in dataset.iterate(epoch)] for dataset in datasets]
    return [sorted(np.concatenate(parts).tolist()) for parts in zip(*read, strict=True)]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 8, 12, 24])
@pytest.mark.parametrize("epoch", [0, 3])
def test_batches_of_all_shards_have_the_same_samples_for_any_number_of_shards(count, epoch) -> None:
    wanted = batches([shard(1, 0)], epoch)
    assert len(wanted) == 3
    assert batches([shard(4, 3).dealt(count, number, 24 // count) for number in range(count)], epoch) == wanted
    assert batches([shard(count, number) for number in range(count)], epoch) == wanted


def test_it_says_over_how_many_shards_it_is_dealt_out() -> None:
    assert shard(4, 2).num_shards == 4
    assert shard(4, 2).dealt(3, 2, 8).num_shards == 3
    assert shard(4, 2).dealt(3, 2, 8).get_batch_size() == 8
    assert GeneratorDataset(lambda: iter([1, 2]), "x").num_shards == 1


@pytest.mark.parametrize("name", ["shuffle", "repeat", "take", "skip"])
def test_what_is_done_to_the_rows_of_one_shard_is_refused(name) -> None:
    rows = NumpySlicesDataset(np.arange(48), "x", num_shards=4, shard_id=0)
    with pytest.raises(DatasetError, match=f"has {name} on the rows of one shard.*put {name} after batch"):
        getattr(rows, name)(2).batch(3).dealt(2, 0, 6)


def test_a_source_that_is_read_in_turn_cannot_be_dealt_out() -> None:
    with pytest.raises(DatasetError, match=r"reads a source in turn.*give it a source with __getitem__"):
        GeneratorDataset(lambda: iter([1, 2]), "x").batch(1).dealt(2, 0, 1)


@pytest.mark.parametrize("name", ["shuffle", "repeat", "take", "skip"])
def test_why_a_pipeline_cannot_be_dealt_out_is_told_whole(name) -> None:
    rows = NumpySlicesDataset(np.arange(48), "x", num_shards=4, shard_id=0)
    with pytest.raises(DatasetError) as caught:
        getattr(rows.map(lambda x: x), name)(2).dealt(2, 0, 6)
    assert str(caught.value) == (
        f"the dataset has {name} on the rows of one shard, which are others when ranks change; put {name} after batch, "
        "or shuffle and choose samples in the source (shuffle=True, num_samples)"
    )
    with pytest.raises(DatasetError) as caught:
        GeneratorDataset(lambda: iter([1, 2]), "x").map(lambda x: x).dealt(2, 0, 1)
    assert str(caught.value) == (
        "the dataset reads a source in turn, so that no rank can take over the rows of another; give it a source with "
        "__getitem__ and __len__, num_shards and shard_id"
    )


@pytest.mark.parametrize("name", ["shuffle", "repeat", "take", "skip"])
def test_batches_of_one_row_may_be_chosen_from_as_larger_ones_may(name) -> None:
    def part(count, number):
        rows = NumpySlicesDataset(np.arange(8), "x", shuffle=False, num_shards=count, shard_id=number)
        return getattr(rows.batch(8 // count // 2), name)(2)

    dealt_out = [part(4, 1).dealt(2, number, 2) for number in range(2)]
    assert [dataset.get_batch_size() for dataset in dealt_out] == [2, 2]
    for number, dataset in enumerate(dealt_out):
        found = [batch["x"].tolist() for batch in dataset.iterate()]
        assert found == [batch["x"].tolist() for batch in part(2, number).iterate()]
