"""A pipeline dealt out anew: the same batches of all shards together, over another number of shards."""

from __future__ import annotations

import copy
from typing import Any

from mpiparallel.dataset.batch_stage import BatchStage
from mpiparallel.dataset.order_stages import RepeatStage, ShuffleStage, SkipStage, TakeStage
from mpiparallel.dataset.source import RandomAccessStage
from mpiparallel.dataset.stage import Stage
from mpiparallel.errors import DatasetError


def shards_of(stage: Any) -> int:
    """Return over how many shards the source of a pipeline is dealt out; 1 where it is not."""
    while not isinstance(stage, RandomAccessStage):
        stage = getattr(stage, "_parent", None)
        if stage is None:
            return 1
    return stage.order.num_shards


def dealt(stage: Stage, num_shards: int, shard_id: int, batch_size: int) -> Stage:
    """Return the pipeline of one of ``num_shards`` shards, which takes ``batch_size`` rows a batch.

    Sample by sample, batch ``k`` of all shards together is the same for every number of shards, as long as
    ``num_shards * batch_size`` is. Raises DatasetError for a pipeline of which that is not so. Such a pipeline does not
    read by index, or shuffles, repeats, takes or skips the rows of a shard before it batches them.
    """
    if isinstance(stage, RandomAccessStage):
        return stage.dealt(num_shards, shard_id)
    parent = getattr(stage, "_parent", None)
    if parent is None:
        raise DatasetError(
            "the dataset reads a source in turn, so that no rank can take over the rows of another; give it a source "
            "with __getitem__ and __len__, num_shards and shard_id"
        )
    of_rows = parent.batch_size == 1 and not isinstance(parent, BatchStage)
    if of_rows and isinstance(stage, (RepeatStage, ShuffleStage, SkipStage, TakeStage)):
        name = type(stage).__name__.removesuffix("Stage").lower()
        raise DatasetError(
            f"the dataset has {name} on the rows of one shard, which are others when ranks change; put {name} after "
            "batch, or shuffle and choose samples in the source (shuffle=True, num_samples)"
        )
    twin: Any = copy.copy(stage)
    twin._parent = dealt(parent, num_shards, shard_id, batch_size)
    twin.batch_size = batch_size if isinstance(stage, BatchStage) else twin._parent.batch_size
    return twin  # type: ignore[no-any-return]
