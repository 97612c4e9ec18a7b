"""What pipelines of MindSpore are told about who reads: here one thread reads ahead, whatever they say."""

from __future__ import annotations

from typing import Any, Final

from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.dataset.stage import check_count

_ONE_THREAD: Final = "one thread reads ahead, and rows do not depend on who reads them; see config.set_prefetch_size"


def remark_on_workers(where: str, default: int | None = None, **given: Any) -> None:
    """Say once of each argument about workers that it has no effect; a count of them must be one.

    Raises DatasetError for a ``num_parallel_workers`` that is no integer of at least 1.

    >>> remark_on_workers("map", num_parallel_workers=None, python_multiprocessing=False)
    """
    count = given.pop("num_parallel_workers")
    if count is not None:
        check_count(where, "num_parallel_workers", count, 1)
    no_effect(where, "num_parallel_workers", count, _ONE_THREAD, default)
    for name, value in given.items():
        no_effect(where, name, value, _ONE_THREAD, default=_DEFAULTS[name])


_DEFAULTS: Final[dict[str, Any]] = {"python_multiprocessing": False, "max_rowsize": 6, "cache": None}
