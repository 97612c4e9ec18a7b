"""What a dataset must offer to be trained or evaluated on."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, Final

from mpiparallel.dataset.dataset import Dataset
from mpiparallel.errors import DatasetError
from mpiparallel.nn.cell import Cell

_NEEDED: Final = ("iterate", "get_dataset_size", "get_batch_size")


def check_dataset(where: str, given: Any) -> None:
    """Raise DatasetError unless the argument of ``where`` is a dataset, or an object with the methods of one.

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


def check_columns(where: str, network: Cell, columns: Iterable[str]) -> None:
    """Raise DatasetError unless ``network`` takes each column of the dataset as an input, and needs no more.

    A cell of this package that takes any inputs hands them on to its ``network``. One of the user's may take any.
    """
    names, signature = list(columns), inspect.signature(network.construct)
    takes_any = any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in signature.parameters.values())
    if takes_any and network.construct.__module__.startswith("mpiparallel.") and hasattr(network, "network"):
        check_columns(where, network.network, names)
        return
    try:
        signature.bind(*names)
    except TypeError as error:
        raise DatasetError(
            f"{where}: the dataset has {len(names)} column{'s' * (len(names) != 1)} ({', '.join(names)}), but "
            f"{type(network).__name__}.construct takes ({', '.join(signature.parameters)}); give it those columns"
        ) from error
