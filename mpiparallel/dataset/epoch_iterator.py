"""The iterators that a dataset hands out: one ``for`` loop over them is one epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.dataset.stage import Array
from mpiparallel.ops.tensor_methods import Tensor

Item = TypeVar("Item")
_TEXT: Final = "OSU"


def array_converter(where: str, output_numpy: bool, do_copy: bool) -> Callable[[Array], Any]:
    """Return what makes of a column's values what a user gets: a tensor, or the array for text and ``output_numpy``.

    >>> import numpy as np
    >>> array_converter("create_dict_iterator", output_numpy=False, do_copy=False)(np.arange(2)).shape
    (2,)
    """
    no_effect(where, "do_copy", do_copy, "the memory of a row belongs to its user alone", default=False)
    return lambda values: values if output_numpy or values.dtype.kind in _TEXT else Tensor(values)


class EpochIterator(Generic[Item]):
    """Iterates an epoch in each ``for`` loop, then the next epoch in the next loop.

    After ``num_epochs`` epochs it gives nothing more; -1 has no end.

    >>> pairs = EpochIterator(lambda epoch: iter([epoch, epoch]), num_epochs=2)
    >>> list(pairs), list(pairs), list(pairs)
    ([0, 0], [1, 1], [])
    """

    def __init__(self, start: Callable[[int], Iterator[Item]], num_epochs: int) -> None:
        self._start = start
        self._num_epochs = num_epochs
        self._epoch = 0
        self._running: Iterator[Item] | None = None

    def __iter__(self) -> EpochIterator[Item]:
        return self

    def __next__(self) -> Item:
        if self._running is None:
            if self._epoch == self._num_epochs:
                raise StopIteration
            self._running = self._start(self._epoch)
        try:
            return next(self._running)
        except StopIteration:
            self._running = None
            self._epoch += 1
            raise
