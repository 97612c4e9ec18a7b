"""What a rank is fed: all the same, or each its part of the data, dealt out anew when ranks change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpiparallel.dataset.dataset import Dataset
from mpiparallel.errors import DatasetError
from mpiparallel.parallel.configuration import ParallelConfiguration


class FedData:
    """The dataset that a program has given to ``train`` on this rank, and what it becomes on other ranks.

    ``rows`` are those of a batch of all ranks that train, and stay as many; the dataset was made for ``ranks``.
    """

    def __init__(self, given: Dataset) -> None:
        self._given = given
        self._ranks: list[int] = []
        self._rows = 0

    def position(self) -> dict[str, Any]:
        """Return what a rank that joins must know of the data."""
        return {"ranks": self._ranks, "rows": self._rows}

    def take_position(self, position: dict[str, Any]) -> None:
        """Take what the ranks know that train."""
        self._ranks, self._rows = position["ranks"], position["rows"]

    def dealt_to(self, ranks: Sequence[int], configuration: ParallelConfiguration) -> Dataset:
        """Return the dataset of the rank of ``configuration`` among ``ranks``; the first to be asked for are its own.

        Raises DatasetError where each rank is fed a part and other ranks cannot take the parts over.
        """
        if not self._ranks:
            self._ranks, self._rows = list(ranks), int(self._given.get_batch_size()) * len(ranks)
        if configuration.full_batch or list(ranks) == self._ranks:
            return self._given
        if self._given.num_shards == 1:
            raise DatasetError(
                "Model.reshard: each rank is fed data of its own, and this dataset does not say which part it is; give "
                "it num_shards=get_group_size() and shard_id=get_rank(), or feed all ranks the same with "
                "full_batch=True"
            )
        if self._rows % len(ranks):
            raise DatasetError(
                f"Model.reshard: the batch of all ranks has {self._rows} rows, which {len(ranks)} ranks cannot share "
                "evenly; choose ranks whose number divides it"
            )
        return self._given.dealt(len(ranks), configuration.rank, self._rows // len(ranks))
