"""What a dataset must offer to be trained or evaluated on."""

from __future__ import annotations

from typing import Any, Final

from mpiparallel.dataset.dataset import Dataset
from mpiparallel.errors import DatasetError

_NEEDED: Final = ("iterate", "get_dataset_size", "get_batch_size")


def check_dataset(where: str, given: Any) -> None:
    """Raise DatasetError unless what ``where`` was given is a dataset, or one's own class that does what one does.

    >>> check_dataset("Model.train", [1, 2])
    Traceback (most recent call last):
    ...
    mpiparallel.errors.DatasetError: Model.train: the dataset is a list, which has no iterate, no get_dataset_size and \
no get_batch_size; give a Dataset, as GeneratorDataset(..., column_names=[...]).batch(...) makes one of any sequence \
or generator
    """
    lacking = [] if isinstance(given, Dataset) else [name for name in _NEEDED if not hasattr(given, name)]
    if lacking:
        listed = " and ".join(filter(None, [", no ".join(lacking[:-1]), lacking[-1]])).replace(" and ", " and no ")
        raise DatasetError(
            f"{where}: the dataset is a {type(given).__name__}, which has no {listed}; give a Dataset, as "
            "GeneratorDataset(..., column_names=[...]).batch(...) makes one of any sequence or generator"
        )
